import logging

import pytest
import torch

from diffmask.errors import CollapseError
from diffmask.gates.probe import ProbeConfig, make_probe
from diffmask.objective.objective import Objective, ObjectiveConfig
from diffmask.training import trainer
from diffmask.training.config import recipe
from diffmask.training.fit import fit
from diffmask.training.guard import diagnose, without_a_tenth
from diffmask.training.validate import DepthScore, validate
from toys import evidence_model, evidence_task, small_recipe


def diagnosed(bias, evidence_direction=0.0, margin=0.1):
    """Diagnose a hidden probe whose last depth votes `bias`, plus a lean toward the tokens that are evidence."""
    model, task = evidence_model(), evidence_task()
    probe = make_probe(model.sites.names, [4, 4, 4], ProbeConfig(kind="hidden", bound=50.0))
    voter = probe.voter(2)
    with torch.no_grad():
        voter.first.weight.zero_()
        voter.first.weight[0] = torch.tensor([-1.0, -1.0, 1.0, 1.0]) * evidence_direction
        voter.first.bias.zero_()
        voter.last.weight[0, 0] = 1.0
        voter.last.bias.fill_(bias)
    objective = Objective(ObjectiveConfig(margin=margin), 3)
    batches = [task.collate(task.validation)]
    with model.frozen():
        score = validate(model, task, probe, objective, iter(batches))[2]
        return diagnose(model, task, probe, objective, score, iter(batches))


def test_gates_that_keep_everything_though_a_tenth_could_go_are_stuck_open():
    assert diagnosed(bias=10, evidence_direction=1.0) == "open"


def test_gates_that_keep_everything_because_it_is_needed_are_not_stuck():
    assert diagnosed(bias=10, evidence_direction=-1.0, margin=0.02) is None  # the lowest scores are evidence


def test_gates_that_drop_everything_against_their_margin_are_stuck_closed():
    assert diagnosed(bias=-20) == "closed"


def test_dropping_everything_within_the_margin_is_no_trouble():
    assert diagnosed(bias=-20, margin=100.0) is None


def test_without_a_tenth_drops_the_lowest_real_units_of_the_batch():
    scores = torch.arange(40.0).view(4, 10)
    valid = torch.ones(4, 10, dtype=torch.bool)
    valid[0, :2] = False
    keep = without_a_tenth(scores, valid)
    assert (valid & ~keep).nonzero().tolist() == [[0, 2], [0, 3], [0, 4]]


def test_a_stuck_depth_starts_anew_and_still_finds_the_answer(monkeypatch):
    answers = iter(["open"])
    monkeypatch.setattr(trainer, "diagnose", lambda *_: next(answers, None))
    fitted = fit(evidence_model(), evidence_task(), small_recipe())
    assert fitted.restarts == [1, 0, 0]
    assert fitted.feasible
    assert fitted.scores[0].kept < 0.7


def learned(run, depth):
    """Say whether a depth's voter has learned anything, its price remembers, and the optimiser does."""
    voter, price = run.probe.voter(depth), run.objective.dual.smoothed[depth]
    known = [parameter in run.optimizer.state for parameter in voter.parameters()]
    assert all(known) or not any(known)
    return bool(voter.last.weight.any()), bool(price), all(known)


def test_a_depth_that_starts_anew_and_no_other_forgets_its_weights_its_price_and_its_momentum(monkeypatch):
    rescue, found = trainer.Trainer._rescue, []

    def watched(self, run, score):
        before = sum(run.progress.restarts), [learned(run, depth) for depth in range(3)]
        rescue(self, run, score)
        if sum(run.progress.restarts) > before[0]:
            found.append((score.depth, before[1], [learned(run, depth) for depth in range(3)]))

    answers = iter([None, "open"])
    monkeypatch.setattr(trainer, "diagnose", lambda *_: next(answers, None))
    monkeypatch.setattr(trainer.Trainer, "_rescue", watched)
    fit(evidence_model(), evidence_task(), small_recipe(steps=20, validate_every=10, depths_per_step=3))
    everything, nothing = (True,) * 3, (False,) * 3
    assert found == [(1, [everything] * 3, [everything, nothing, everything])]


def test_a_depth_that_stays_closed_stops_the_fit_with_numbers(monkeypatch):
    monkeypatch.setattr(trainer, "diagnose", lambda *_: "closed")
    monkeypatch.setattr(DepthScore, "feasible", lambda *_: False)
    wanted = (
        r"depth 0 drops everything against its margin \(kept .*margin 0.1\), also after starting anew: try a larger"
    )
    with pytest.raises(CollapseError, match=wanted):
        fit(evidence_model(), evidence_task(), small_recipe(steps=80, validate_every=10))


def test_a_depth_that_stays_closed_after_a_probe_that_held_is_reported_and_that_probe_is_returned(monkeypatch, caplog):
    monkeypatch.setattr(trainer, "diagnose", lambda *_: "closed")
    with caplog.at_level(logging.WARNING):
        fitted = fit(evidence_model(), evidence_task(), small_recipe(steps=80, validate_every=10))
    assert "going on with an earlier probe that held" in caplog.text
    assert fitted.feasible and fitted.restarts == [2, 2, 2]


def test_without_the_guard_no_depth_starts_anew(monkeypatch):
    monkeypatch.setattr(trainer, "diagnose", lambda *_: "closed")
    fitted = fit(evidence_model(), evidence_task(), small_recipe(steps=20, validate_every=10, guard=False))
    assert fitted.restarts == [0, 0, 0] and not recipe("published").guard


def test_a_depth_that_stays_open_is_reported_and_kept(monkeypatch, caplog):
    monkeypatch.setattr(trainer, "diagnose", lambda *_: "open")
    with caplog.at_level(logging.WARNING):
        fit(evidence_model(), evidence_task(), small_recipe(steps=60, validate_every=10))
    assert "keeps everything though a tenth could go" in caplog.text
