import pytest
import torch

from diffmask.training.fit import fit
from diffmask.training.optimizer import OPTIMIZERS, LookaheadAdam, LookaheadRMSprop
from diffmask.training.trainer import Trainer
from toys import evidence_model, evidence_task, small_recipe


def slow_lookahead_rmsprop(start, gradients, rate):
    """Centred RMSprop (decay 0.99, eps 1e-8) with Lookahead (6 steps, half), one number at a time."""
    fast, square, average, slow = start, 0.0, 0.0, None
    for number, gradient in enumerate(gradients, start=1):
        square = 0.99 * square + 0.01 * gradient**2
        average = 0.99 * average + 0.01 * gradient
        fast -= rate * gradient / ((square - average**2) ** 0.5 + 1e-8)
        if number % 6 == 0:
            slow = fast if slow is None else slow + 0.5 * (fast - slow)
            fast = slow
    return fast


def test_lookahead_rmsprop_agrees_with_a_scalar_version_of_its_formulas():
    gradients = torch.randn(40, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weight = torch.nn.Parameter(torch.tensor(1.5, dtype=torch.float64))
    optimizer = LookaheadRMSprop([weight], lr=0.05)
    for gradient in gradients:
        weight.grad = gradient.clone()
        optimizer.step()
    expected = slow_lookahead_rmsprop(1.5, gradients.tolist(), 0.05)
    torch.testing.assert_close(weight.item(), expected, rtol=1e-9, atol=1e-9)


def slow_lookahead_adam(start, gradients, rate):
    """Adam (0.9, 0.999, eps 1e-8) with Lookahead (6 steps, half), one number at a time."""
    fast, first, second, slow = start, 0.0, 0.0, None
    for number, gradient in enumerate(gradients, start=1):
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        fast -= rate * first / (1 - 0.9**number) / ((second / (1 - 0.999**number)) ** 0.5 + 1e-8)
        if number % 6 == 0:
            slow = fast if slow is None else slow + 0.5 * (fast - slow)
            fast = slow
    return fast


def test_lookahead_adam_agrees_with_a_scalar_version_of_its_formulas():
    gradients = torch.randn(40, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weight, idle = (torch.nn.Parameter(torch.tensor(1.5, dtype=torch.float64)) for _ in range(2))
    optimizer = LookaheadAdam([weight, idle], lr=0.05)
    for gradient in gradients:
        weight.grad = gradient.clone()
        optimizer.step()
    expected = slow_lookahead_adam(1.5, gradients.tolist(), 0.05)
    torch.testing.assert_close(weight.item(), expected, rtol=1e-9, atol=1e-9)
    assert idle.item() == 1.5


def decays(monkeypatch, **settings):
    """Return how each group of weights decays in a fit."""
    made, make = [], Trainer._make_optimizer
    monkeypatch.setattr(Trainer, "_make_optimizer", lambda *args: made.append(make(*args)) or made[-1])
    fit(evidence_model(), evidence_task(150), small_recipe(steps=1, guard=False, **settings))
    return [group["weight_decay"] for group in made[0].param_groups]


@pytest.mark.parametrize("name", ["adam", "lookahead-rmsprop", "lookahead-adam"])
def test_weight_decay_reaches_the_gates_and_not_the_baselines(monkeypatch, name):
    assert decays(monkeypatch, optimizer=name, weight_decay=0.3) == [0.3, 0.0, 0.0, 0.0]


def test_without_being_asked_for_no_weight_decays(monkeypatch):
    assert set(decays(monkeypatch)) == {0.0}


def test_weight_decay_of_adam_is_decoupled_from_the_gradient():
    weight = torch.nn.Parameter(torch.tensor([1.0, 100.0]))
    optimizer = OPTIMIZERS.get("adam")([{"params": [weight], "weight_decay": 0.1}], lr=0.01)
    weight.grad = torch.zeros(2)
    optimizer.step()
    torch.testing.assert_close(weight.detach(), torch.tensor([1.0, 100.0]) * (1 - 0.01 * 0.1))
