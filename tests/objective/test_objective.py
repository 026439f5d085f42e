"""The constrained objective in both its forms, and how it is tightened."""

import math
from itertools import pairwise

import pytest
import torch

from diffmask.errors import SettingError, UnknownNameError
from diffmask.gates.hard_concrete import HardConcrete
from diffmask.gates.votes import Votes
from diffmask.objective.lagrangian import Controller, PublishedDual
from diffmask.objective.objective import Objective, ObjectiveConfig
from diffmask.objective.sparsity import expected_l0, log_open
from diffmask.types import Bernoulli

VALID = torch.tensor([[True, True, True], [True, True, False]])
DIVERGENCE = torch.tensor([0.3, 0.7])


@pytest.fixture
def votes() -> Votes:
    return Votes(torch.randn(1, 2, 3, generator=torch.Generator().manual_seed(0)), HardConcrete())


def fixed(price: float, count: int = 1, **changes) -> Objective:
    """An objective with the published dual, whose price at the first step is the multiplier."""
    objective = Objective(ObjectiveConfig(dual="published", tighten=0.0, **changes), count)
    objective.dual.multiplier.fill_(price)
    return objective


@pytest.mark.parametrize(("name", "sparsity"), [("expected-l0", expected_l0), ("log-open", log_open)])
def test_the_margin_form_minimises_what_is_kept_and_prices_the_divergence(votes, name, sparsity):
    loss = fixed(4.0, margin=0.1, sparsity=name)(DIVERGENCE, votes, VALID, 0, 1.0)
    assert float(loss.total) == pytest.approx(float(sparsity(votes, VALID).mean()) + 4 * (0.5 - 0.1), rel=1e-5)


def test_the_rate_form_minimises_the_divergence_and_prices_what_is_kept(votes):
    loss = fixed(4.0, form="rate", rate=0.2)(DIVERGENCE, votes, VALID, 0, 1.0)
    assert float(loss.total) == pytest.approx(0.5 + 4 * (float(expected_l0(votes, VALID).mean()) - 0.2), rel=1e-5)


def test_the_rate_is_a_share_even_where_the_cost_would_be_a_log(votes):
    loss = fixed(4.0, form="rate", rate=0.2, sparsity="log-open")(DIVERGENCE, votes, VALID, 0, 1.0)
    assert float(loss.total) == pytest.approx(0.5 + 4 * (float(expected_l0(votes, VALID).mean()) - 0.2), rel=1e-5)


def test_with_one_constraint_per_example_each_pays_its_own_price(votes):
    objective = fixed(0.0, count=2, margin=0.1)
    objective.dual.multiplier.copy_(torch.tensor([2.0, 5.0]))
    loss = objective(DIVERGENCE, votes, VALID, slice(None), 1.0)
    kept = expected_l0(votes, VALID).tolist()
    assert float(loss.total) == pytest.approx((kept[0] + 2 * 0.2 + kept[1] + 5 * 0.6) / 2, rel=1e-5)


def test_the_terms_are_shown_apart_and_without_gradient(votes):
    votes.logits.requires_grad_(True)
    loss = fixed(4.0)(DIVERGENCE, votes, VALID, 0, 1.0)
    assert torch.equal(loss.divergence, DIVERGENCE) and torch.equal(loss.kept, expected_l0(votes, VALID).detach())
    assert loss.total.requires_grad and not loss.divergence.requires_grad and not loss.kept.requires_grad


def test_a_broken_margin_raises_the_multiplier_of_its_depth_alone(votes):
    objective = Objective(ObjectiveConfig(margin=0.1, tighten=0.0), 3)
    objective(DIVERGENCE, votes, VALID, 1, 1.0)
    assert (objective.dual.multiplier > 0).tolist() == [False, True, False]


@pytest.mark.parametrize(("form", "asked"), [("margin", 0.1), ("rate", 0.5)])
def test_the_constraint_is_tightened_from_the_start_to_what_was_asked(form, asked):
    objective = Objective(ObjectiveConfig(form=form, margin=0.1, rate=0.5, tighten=0.5), 2)
    objective.start.copy_(torch.tensor([0.9, asked / 2]))
    targets = [float(objective.target(0, progress)) for progress in (0.0, 0.125, 0.25, 0.375, 0.5, 0.75, 1.0)]
    assert targets[0] == pytest.approx(0.9) and targets[2] == pytest.approx(math.sqrt(0.9 * asked))
    assert targets[4:] == pytest.approx([asked] * 3)
    assert all(after < before for before, after in pairwise(targets[:5]))
    # Where the probe starts within the constraint there is nothing to tighten.
    assert [float(objective.target(1, p)) for p in (0.0, 0.3, 1.0)] == pytest.approx([asked] * 3)


def test_without_tightening_what_was_asked_holds_at_once():
    objective = Objective(ObjectiveConfig(margin=0.1, tighten=0.0), 1)
    objective.start.fill_(0.9)
    assert float(objective.target(0, 0.0)) == pytest.approx(0.1)


def test_targets_of_all_examples_come_at_once():
    objective = Objective(ObjectiveConfig(margin=0.1), 2)
    objective.start.copy_(torch.tensor([0.9, 0.2]))
    assert objective.target(slice(None), 0.0).tolist() == pytest.approx([0.9, 0.2])


def test_the_measure_is_the_one_in_the_settings():
    one, other = {"y": Bernoulli(torch.tensor([200.0]))}, {"y": Bernoulli(torch.tensor([-200.0]))}
    found = [float(Objective(ObjectiveConfig(divergence=m), 1).divergence(one, other)) for m in ("kl", "js", "tv")]
    assert found == pytest.approx([200, math.log(2), 1], rel=1e-4)


@pytest.mark.parametrize(("name", "kind"), [("controller", Controller), ("published", PublishedDual)])
def test_the_dual_is_the_one_in_the_settings(name, kind):
    assert type(Objective(ObjectiveConfig(dual=name), 2).dual) is kind


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"margin": 0.0}, SettingError, "margin must be positive, got 0.0: at 0 only the full input satisfies"),
        ({"margin": float("nan")}, SettingError, "margin must be positive, got nan"),
        ({"rate": 0.0}, SettingError, r"rate must lie in \(0, 1\], got 0\.0"),
        ({"tighten": 1.0}, SettingError, r"tighten must lie in \[0, 1\), got 1\.0"),
        ({"divergence": "jsd"}, UnknownNameError, "no divergence named 'jsd'; did you mean 'js'"),
        ({"sparsity": "l0"}, UnknownNameError, "no sparsity named 'l0'"),
    ],
)
def test_settings_out_of_range_are_refused(wrong, error, message):
    with pytest.raises(error, match=message):
        ObjectiveConfig(**wrong)


@pytest.mark.parametrize(("field", "choices"), [("form", "margin, rate"), ("dual", "controller, published")])
def test_a_choice_that_does_not_exist_is_refused(field, choices):
    config = ObjectiveConfig()
    object.__setattr__(config, field, "typo")  # past the type checker, which users do not run
    with pytest.raises(SettingError, match=rf"objective\.{field}: no choice named 'typo'\. Known: {choices}"):
        config.__post_init__()


def test_a_price_on_decided_gates_is_the_mean_square_of_their_logits_over_real_units(votes):
    plain, priced = (fixed(0.0, smooth=price)(DIVERGENCE, votes, VALID, 0, 1.0).total for price in (0.0, 0.1))
    square = votes.logits[0] ** 2
    by_hand = (square[0].mean() + square[1, :2].mean()) / 2
    assert float(priced - plain) == pytest.approx(0.1 * float(by_hand), rel=1e-5)


def test_a_negative_price_on_decided_gates_is_refused():
    with pytest.raises(SettingError, match="smooth must be 0 or more, got -1"):
        ObjectiveConfig(smooth=-1.0)
