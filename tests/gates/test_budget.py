"""Sets of so many units against sorting by hand, and the pairs a ranking is learned from."""

import pytest
import torch

from diffmask.gates.budget import draw_pair, keep_highest
from diffmask.gates.noise import Part

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


def test_budgets_are_even_between_one_and_all_but_one():
    valid = torch.arange(6) < torch.tensor([[6], [2], [1]]).repeat(2000, 1)
    counts = draw_pair(valid, torch.Generator().manual_seed(0))[0].sum(1).long().view(2000, 3)
    shares = torch.bincount(counts[:, 0], minlength=7) / 2000
    assert shares[0] == shares[6] == 0 and (shares[1:6] - 0.2).abs().max() < 0.03
    assert (counts[:, 1:] == 1).all()


def test_a_pair_has_one_size_and_as_little_in_common_as_that_allows():
    valid = VALID.repeat(200, 1)
    one, other = draw_pair(valid, torch.Generator().manual_seed(0))
    size, real = one.sum(1), valid.sum(1)
    assert torch.equal(size, other.sum(1)) and not one[~valid].any() and not other[~valid].any()
    assert torch.equal((one * other).sum(1), (2 * size - real).clamp_min(0))
    assert (size >= 1).all() and (size < real).all()
    assert (one.mean(0) - other.mean(0)).abs().max() < 0.1  # no unit is drawn more often than another


def test_sets_of_half_the_units_have_nothing_in_common_and_leave_out_at_most_one():
    valid = torch.arange(7) < torch.tensor([[7], [6], [2]]).repeat(200, 1)
    one, other = draw_pair(valid, torch.Generator().manual_seed(0), sizes="half")
    assert torch.equal(one.sum(1), valid.sum(1) // 2) and torch.equal(one.sum(1), other.sum(1))
    assert not (one * other).any() and not (one + other)[~valid].any()
    assert (one.mean(0) - other.mean(0)).abs().max() < 0.15


@pytest.mark.parametrize("sizes", ["even", "half"])
def test_a_single_unit_is_compared_with_itself(sizes):
    valid = torch.tensor([[True, False]])
    one, other = draw_pair(valid, torch.Generator().manual_seed(0), sizes=sizes)
    assert one.tolist() == other.tolist() == [[1, 0]]


def test_a_part_of_a_batch_draws_what_falls_to_it():
    whole = draw_pair(VALID, torch.Generator().manual_seed(0))
    part = draw_pair(VALID[1:], torch.Generator().manual_seed(0), Part(1, 3, 3))
    assert all(torch.equal(some, every[1:]) for some, every in zip(part, whole, strict=True))
