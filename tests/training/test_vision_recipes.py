"""What the two vision recipes set, and that each setting does what its formula says."""

import math

import pytest
import torch

from diffmask.errors import SettingError
from diffmask.gates.probe import ProbeConfig, make_probe
from diffmask.gates.voter import PublishedVoter
from diffmask.objective.lagrangian import Controller, PublishedDual
from diffmask.objective.objective import Objective
from diffmask.training.config import recipe
from diffmask.training.fit import fit
from diffmask.training.optimizer import OPTIMIZERS, LookaheadAdam
from diffmask.training.random import ABLATION, generator
from diffmask.training.start import _first_level
from diffmask.training.step import look
from patch_toy import patch_problem

WIDTHS = [6, 6, 6, 6, 6]
NAMES = ["a", "b", "c", "d", "e"]
SMALL = {"steps": 300, "batch_size": 64, "hidden": 32, "learning_rate": 5e-3, "depths_per_step": 0}
SMALL |= {"ablation_steps": 40, "ablation_rate": 0.1}


def reading(scale):
    return {name: scale * torch.randn(2, 9, 6) for name in NAMES}


@pytest.mark.parametrize("share", [0.95, 0.9, 0.7, 0.5])
@pytest.mark.parametrize("scale", [0.1, 30.0])
def test_the_share_kept_at_first_is_the_one_asked_for_whatever_the_states_and_the_seed(share, scale):
    for seed in range(3):
        torch.manual_seed(seed)
        probe = make_probe(NAMES, WIDTHS, recipe("vision", start_open=share).probe)
        for votes in probe.votes(reading(scale), range(5)):
            torch.testing.assert_close(votes.keep_probability(), torch.full((2, 9), share))


def test_the_published_share_depends_on_the_size_of_the_states():
    torch.manual_seed(0)
    probe = make_probe(NAMES, WIDTHS, recipe("published-vision", offset=3.0).probe)
    small, large = (probe(reading(scale), 4).keep_probability().mean().detach() for scale in (1e-3, 30.0))
    assert float(large) < float(small) - 0.1


def test_published_gates_have_the_papers_numbers():
    config = recipe("published-vision")
    gate = config.probe.make_gate()
    assert math.isclose(float(gate.open(torch.tensor(0.0))), 0.5798, abs_tol=1e-4)
    assert math.isclose(float(gate.open(torch.tensor(8.0))) ** 14, 0.9966, abs_tol=1e-4)
    assert math.isclose(float(gate.open(torch.tensor(-7.0))), 0.00126, abs_tol=1e-5)
    probe = make_probe(NAMES, WIDTHS, config.probe)
    voter = probe.voter(2)
    assert isinstance(voter, PublishedVoter) and (voter.stretch, float(voter.bias.detach())) == (15.0, 8.0)
    assert list(probe.voters_at(3)) == [0, 1, 2, 3]  # a depth multiplies all gates up to it
    assert config.depths_per_step == 1 and OPTIMIZERS.get(config.optimizer) is LookaheadAdam


def test_the_published_loss_is_the_log_of_being_kept_plus_the_price_times_the_violation():
    config = recipe("published-vision")
    torch.manual_seed(0)
    probe, objective = make_probe(NAMES, WIDTHS, config.probe), Objective(config.objective, 5)
    votes, valid, far = probe(reading(1.0), 3), torch.ones(2, 9, dtype=torch.bool), torch.tensor([0.3, 0.7])
    log_open = torch.nn.functional.logsigmoid(votes.logits + 0.2 * math.log(5)).sum(0).mean()
    loss = objective(far, votes, valid, 3, 0.0)
    torch.testing.assert_close(loss.total, log_open + 20 * (0.5 - 0.1))


def test_duals_are_a_controller_and_the_papers_adam_in_either_direction():
    ours = Objective(recipe("vision").objective, 1).dual
    right, released = (Objective(recipe("published-vision", sign=s).objective, 1).dual for s in ("ascent", "descent"))
    assert isinstance(ours, Controller) and isinstance(right, PublishedDual)
    for dual in (right, released):
        for _ in range(5):
            dual(torch.tensor(0.0), torch.tensor(1.0), torch.tensor(0.1), 0)
    assert float(right.multiplier) == pytest.approx(21.5, abs=1e-3)
    assert float(released.multiplier) == pytest.approx(18.5, abs=1e-3)


@pytest.mark.parametrize(("loosest", "level"), [(0.0, 3.0), (0.25, 1.0), (0.9, 3.0)])
def test_the_constraint_starts_no_looser_than_a_share_of_what_dropping_everything_changes(loosest, level):
    objective = Objective(recipe("vision", loosest=loosest).objective, 1)
    objective.start[0] = _first_level(objective, started=3.0, closed=4.0, start_open=0.5)
    assert float(objective.target(0, 0.0)) == pytest.approx(level)
    assert float(objective.target(0, 1.0)) == pytest.approx(0.1)
    with pytest.raises(SettingError, match="loosest must be 0 or more, got -1"):
        recipe("vision", loosest=-1.0)


def test_a_published_voter_cannot_correct_votes():
    with pytest.raises(SettingError, match=r"probe\.voter = published-vision starts each vote at its own bias"):
        ProbeConfig(voter="published-vision")


def test_the_published_baseline_starts_as_a_draw_of_its_own_and_ours_where_it_changes_least():
    model, task = patch_problem()
    config = recipe("published-vision", steps=1, learning_rate=1e-12, seed=4, warmup=0)
    fitted = fit(model, task, config)
    expected = torch.randn(4, generator=generator(4, ABLATION, 0)) / 2
    torch.testing.assert_close(fitted.probe.baselines.vector(0).detach(), expected, atol=1e-4, rtol=0)
    many = torch.cat([torch.randn(768, generator=generator(seed, ABLATION, 0)) / 768**0.5 for seed in range(20)])
    assert float(many.std()) == pytest.approx(0.0361, abs=1e-3)
    assert recipe("vision").probe.baseline.start == "ablation"


@pytest.mark.parametrize("share", [0.95, 0.5])
def test_our_recipe_keeps_exactly_the_evidence_from_an_open_and_from_a_half_open_start(share):
    model, task = patch_problem()
    fitted = fit(model, task, recipe("vision", start_open=share, **SMALL))
    batch = task.collate(task.validation)
    colours = batch.inputs["pixel_values"][:, :, ::4, ::4].argmax(1).flatten(1)
    keep = fitted.probe(look(model, task, batch).reading, 3).hard_keep()
    assert fitted.feasible and torch.equal(keep, colours != 1)


def test_the_published_recipe_runs_in_both_directions():
    model, task = patch_problem()
    for sign in ("ascent", "descent"):
        fitted = fit(model, task, recipe("published-vision", steps=7, sign=sign))
        assert all(score.kept == 1 for score in fitted.scores)  # as good as all kept at first
