"""The budget's choice against sorting by hand, and its gradient against the formula of the implicit function."""

import pytest
import torch

from diffmask.gates.budget import draw_counts, keep_highest, logistic_noise, soft_highest, straight_through

VALID = torch.tensor([[True] * 6, [True, True, True, False, False, False], [False, False, True, True, True, True]])
COUNT = torch.tensor([2, 1, 3])


@pytest.fixture
def scores():
    return torch.randn(3, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_exactly_the_highest_real_units_are_kept(scores):
    keep = keep_highest(scores, COUNT, VALID)
    for row in range(3):
        order = sorted(VALID[row].nonzero().flatten().tolist(), key=lambda unit: -scores[row, unit])
        assert keep[row].nonzero().flatten().tolist() == sorted(order[: int(COUNT[row])])


def test_of_equal_scores_the_first_are_kept():
    keep = keep_highest(torch.zeros(1, 4), torch.tensor([2]), torch.tensor([[False, True, True, True]]))
    assert keep.tolist() == [[0, 1, 1, 0]]


@pytest.mark.parametrize("temperature", [0.1, 1.0, 5.0])
def test_the_soft_choice_adds_up_to_the_budget_and_leaves_padding_out(scores, temperature):
    soft = soft_highest(scores, COUNT, VALID, temperature)
    torch.testing.assert_close(soft.sum(1), COUNT.double())
    assert (soft[~VALID] == 0).all() and (soft <= 1).all()


def test_a_cold_choice_is_the_hard_one(scores):
    torch.testing.assert_close(soft_highest(scores, COUNT, VALID, 1e-3), keep_highest(scores, COUNT, VALID).double())


def test_the_gradient_is_that_of_the_implicit_function(scores):
    found = torch.autograd.functional.jacobian(lambda s: soft_highest(s, COUNT, VALID, 0.7), scores)
    step = 1e-5
    for row in range(3):
        for unit in range(6):
            moved = [scores.clone(), scores.clone()]
            moved[0][row, unit] += step
            moved[1][row, unit] -= step
            up, down = (soft_highest(s, COUNT, VALID, 0.7) for s in moved)
            torch.testing.assert_close(found[:, :, row, unit], (up - down) / (2 * step), rtol=1e-4, atol=1e-6)


def test_the_mask_is_hard_and_its_gradient_soft(scores):
    scores = scores.float().requires_grad_(True)
    weights = torch.randn(3, 6)
    mask = straight_through(scores, COUNT, VALID)
    assert torch.equal(mask, keep_highest(scores, COUNT, VALID))
    (found,) = torch.autograd.grad((mask * weights).sum(), scores)
    (expected,) = torch.autograd.grad((soft_highest(scores, COUNT, VALID) * weights).sum(), scores)
    assert torch.equal(found, expected) and (found[~VALID] == 0).all() and (found != 0).any()


def test_the_whole_budget_has_no_say_and_no_nan():
    scores = torch.randn(2, 3, requires_grad=True)
    valid = torch.tensor([[True, True, True], [True, False, False]])
    mask = straight_through(scores, valid.sum(1), valid)
    (slope,) = torch.autograd.grad(mask.sum(), scores)
    assert torch.equal(mask, valid.float()) and slope.isfinite().all()


def test_budgets_are_even_between_one_and_all_but_one():
    valid = torch.arange(6) < torch.tensor([[6], [2], [1]]).repeat(2000, 1)
    counts = draw_counts(valid, torch.Generator().manual_seed(0)).view(2000, 3)
    shares = torch.bincount(counts[:, 0], minlength=7) / 2000
    assert shares[0] == shares[6] == 0 and (shares[1:6] - 0.2).abs().max() < 0.03
    assert (counts[:, 1:] == 1).all()


def test_noise_is_logistic_and_the_generators_own():
    one, other = (logistic_noise(torch.zeros(100, 100), torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(one, other)
    assert float(one.std()) == pytest.approx(1.814, abs=0.05) and float(one.mean()) == pytest.approx(0, abs=0.05)
