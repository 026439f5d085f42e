"""Probes of several seeds that decide together."""

import pytest
import torch

from diffmask.errors import SettingError
from diffmask.training import committee as committee_file
from diffmask.training.committee import _member, fit_committee
from diffmask.training.config import recipe
from diffmask.training.fit import fit, fit_alone
from diffmask.training.saved import load_fit, save_fit
from toys import evidence_model, evidence_task, small_recipe


def settings(**changes):
    return small_recipe(**{"steps": 60, "members": 2, "kind": "input", **changes})


def same_weights(one, other):
    pairs = zip(one.probe.state_dict().items(), other.probe.state_dict().items(), strict=True)
    return all(a == b and torch.equal(x, y) for (a, x), (b, y) in pairs)


def test_a_committee_holds_the_margin_and_keeps_the_evidence():
    fitted = fit(evidence_model(), evidence_task(), settings(steps=400))
    assert fitted.feasible
    assert fitted.scores[-1].kept < 0.75  # half of the tokens are evidence


def test_its_members_are_the_probes_of_seeds_of_their_own():
    task, model = evidence_task(), evidence_model()
    fitted = fit(model, task, settings(seed=3))
    alone = [fit(model, task, settings(seed=seed, members=1)) for seed in (6, 7)]
    mean = torch.stack([each.probe.voters[0].last.bias for each in alone]).mean(0)
    torch.testing.assert_close(fitted.probe.voters[0].last.bias, mean)
    assert {row["member"] for row in fitted.history} == {0, 1}


def test_the_margin_cuts_what_members_say_together_and_none_of_them_alone():
    assert not _member(settings(calibrate=True), 0).calibrate


def test_only_a_committee_as_a_whole_is_said_to_break_its_margin(caplog):
    fitted = fit(evidence_model(), evidence_task(), settings(steps=4, margin=0.02, start_open=0.1, select=False))
    members = [fit_alone(fitted.model, fitted.task, _member(fitted.config, n), None, False) for n in range(2)]
    assert fitted.feasible and not all(member.feasible for member in members)
    assert not [line for line in caplog.messages if "no probe held the constraint" in line]


def test_committees_of_different_seeds_share_no_member():
    seeds = [_member(settings(seed=seed, members=3), number).seed for seed in range(4) for number in range(3)]
    assert len(set(seeds)) == 12


def test_a_committee_that_was_stopped_ends_with_the_same_weights(tmp_path, monkeypatch):
    task, model = evidence_task(), evidence_model()
    whole = fit(model, task, settings())
    fitted_before = []

    def stopped(*given, **more):
        if fitted_before:
            raise KeyboardInterrupt
        fitted_before.append(given)
        return fit_alone(*given, **more)

    monkeypatch.setattr(committee_file, "fit_alone", stopped)
    with pytest.raises(KeyboardInterrupt):
        fit(model, task, settings(), directory=tmp_path)
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["member-0"]
    assert same_weights(fit(model, task, settings(), directory=tmp_path), whole)


def test_a_committee_is_saved_and_read_back(tmp_path):
    task, model = evidence_task(), evidence_model()
    fitted = fit(model, task, settings())
    save_fit(fitted, tmp_path / "probe.safetensors")
    assert same_weights(load_fit(tmp_path / "probe.safetensors", model, task), fitted)


def test_model_and_probe_end_where_the_model_was():
    model = evidence_model()
    fitted = fit_committee(model, evidence_task(), settings(), None, progress=False)
    assert fitted.probe.shift.device == model.device


def test_members_are_not_for_a_rate():
    with pytest.raises(SettingError, match="cut at a margin: use members = 1"):
        recipe(members=2, objective={"form": "rate"})
