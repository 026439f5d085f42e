"""REINFORCE against the exact gradient, summed over every mask there is."""

import itertools
import math

import pytest
import torch

from diffmask.gates.score_function import ScoreFunction
from diffmask.gates.votes import Votes
from diffmask.objective.objective import Objective, ObjectiveConfig

LOGITS = torch.tensor([[-0.5, 0.3, 1.0]])  # (voter, unit)


def price_of(keep: torch.Tensor) -> torch.Tensor:
    """Some divergence that depends on the whole mask, not on each unit alone."""
    a, b, c = keep.unbind(-1)
    return 1.0 + 2 * (1 - a) * (1 - b) + 0.7 * (1 - c) + b * c


def exact_gradient(logits: torch.Tensor) -> torch.Tensor:
    """The gradient of E[D] by enumeration; with several voters a unit is kept if all keep it."""
    logits = logits.clone().requires_grad_(True)
    total = torch.zeros(())
    for bits in itertools.product([0.0, 1.0], repeat=logits.numel()):
        z = torch.tensor(bits).reshape(logits.shape)
        probability = torch.where(z == 1, torch.sigmoid(logits), torch.sigmoid(-logits)).prod()
        total = total + probability * price_of(z.prod(0))
    (gradient,) = torch.autograd.grad(total, logits)
    return gradient


@pytest.mark.parametrize("example_count", [None, 50_000])
@pytest.mark.parametrize("logits", [LOGITS, torch.cat([LOGITS, LOGITS.flip(1) + 1])], ids=["one voter", "two voters"])
def test_the_gradient_agrees_with_the_sum_over_all_masks(logits, example_count):
    torch.manual_seed(0)
    gate, count = ScoreFunction(example_count), 50_000
    logits = logits.clone().requires_grad_(True)
    every, valid = logits.unsqueeze(1).expand(-1, count, -1), torch.ones(count, 3, dtype=torch.bool)
    gradients = []
    for _ in range(5):
        gates = gate.sample(every.detach())
        divergence = gate.credit(price_of(gates.prod(0)), gates, every, valid)
        gradients.append(torch.autograd.grad(divergence.mean(), logits, retain_graph=True)[0])
    # The first draw has no average before it; with one average per example it has no gradient at all.
    assert torch.allclose(torch.stack(gradients[1:]).mean(0), exact_gradient(logits), atol=0.012)


def test_the_divergence_keeps_its_value():
    gate, divergence = ScoreFunction(), torch.tensor([0.3, 1.2])
    logits = torch.zeros(1, 2, 3, requires_grad=True)
    for _ in range(3):
        credited = gate.credit(divergence, gate.sample(logits.detach()), logits, torch.ones(2, 3, dtype=torch.bool))
        assert torch.equal(credited.detach(), divergence) and credited.requires_grad


def test_padding_gets_no_credit():
    gate, logits = ScoreFunction(), torch.zeros(1, 2, 3, requires_grad=True)
    valid = torch.tensor([[True, True, False], [True, False, False]])
    gate.credit(torch.tensor([0.3, 1.2]), torch.ones(1, 2, 3), logits, valid).sum().backward()
    assert torch.equal(logits.grad[0] != 0, valid)


def test_the_average_moves_slowly_and_is_the_one_from_before_the_draw():
    gate, logits, valid = ScoreFunction(), torch.zeros(1, 1, 1, requires_grad=True), torch.ones(1, 1)
    slow = None
    for value in (1.0, 3.0, -2.0):
        before = value if slow is None else slow
        divergence = gate.credit(torch.tensor([value]), torch.ones(1, 1, 1), logits, valid)
        (gradient,) = torch.autograd.grad(divergence.sum(), logits)
        assert float(gradient) == pytest.approx((value - before) * 0.5, abs=1e-6)  # d log σ(0) = 1/2
        slow = 0.99 * before + 0.01 * value
        assert float(gate.average) == pytest.approx(slow)


@pytest.mark.parametrize("dual", ["published", "controller"])
def test_the_price_multiplies_the_gradient_of_the_divergence(dual):
    valid, keep = torch.ones(2, 3, dtype=torch.bool), torch.tensor([[[1.0, 0, 1], [0, 0, 1]]])

    def gradient(price: float) -> torch.Tensor:
        objective = Objective(ObjectiveConfig(margin=0.5, dual=dual, tighten=0.0), 1)
        objective.dual.multiplier.fill_(price)
        logits = torch.zeros(1, 2, 3, requires_grad=True)
        gate = ScoreFunction()
        # Mean divergence at the margin: the controller's proportional part is silent and the price is λ itself.
        divergence = gate.credit(torch.tensor([0.2, 0.8]), keep, logits, valid)
        objective(divergence, Votes(logits, gate), valid, 0, 1.0).total.backward()
        return logits.grad * (1 + price if dual == "controller" else 1)

    nothing = gradient(0.0)
    once, thrice = gradient(2.0) - nothing, gradient(6.0) - nothing
    assert bool((once.abs() > 1e-3).all())
    assert torch.allclose(thrice, 3 * once, rtol=1e-4, atol=1e-6)


def test_gates_are_hard_and_open_as_often_as_they_say():
    logits = torch.tensor([-2.0, 0.0, 1.5]).repeat(50_000, 1)
    gate = ScoreFunction()
    gates = gate.sample(logits, torch.Generator().manual_seed(0))
    assert set(gates.unique().tolist()) == {0.0, 1.0}
    assert torch.allclose(gates.mean(0), gate.open(logits[0]), atol=0.01)
    assert torch.allclose(gate.log_open(logits).exp(), gate.open(logits))


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_the_logit_of_a_probability_is_open_that_often(probability):
    assert float(ScoreFunction().open(torch.tensor(ScoreFunction().logit_of(probability)))) == pytest.approx(
        probability
    )


def test_log_probabilities_are_finite_in_the_tails():
    assert float(ScoreFunction().log_open(torch.tensor(-30.0))) == pytest.approx(-30 - math.log1p(math.exp(-30)))
