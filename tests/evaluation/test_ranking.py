"""Orders and their likeness, against loops over pairs."""

import math
from itertools import combinations

import pytest
import torch

from diffmask.evaluation.ranking import count_near, count_up, kendall, midranks, per_row, places, spearman


def draw(count, seed, levels=5):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(levels, (2, count), generator=generator).double()


def slow_kendall(a, b):
    """Count pairs one by one, as in the definition of τ-b."""
    agree = disagree = only_a = only_b = 0
    for i, j in combinations(range(len(a)), 2):
        x, y = a[i] - a[j], b[i] - b[j]
        agree, disagree = agree + (x * y > 0), disagree + (x * y < 0)
        only_a, only_b = only_a + (x != 0 and y == 0), only_b + (y != 0 and x == 0)
    both = agree + disagree
    scale = math.sqrt((both + only_a) * (both + only_b))
    return (agree - disagree) / scale if scale else math.nan


def slow_ranks(values):
    return [sum(w < v for w in values) + (1 + sum(w == v for w in values)) / 2 for v in values]


def slow_spearman(a, b):
    a, b = slow_ranks(a), slow_ranks(b)
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    top = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True))
    scale = math.sqrt(sum((x - mean_a) ** 2 for x in a) * sum((y - mean_b) ** 2 for y in b))
    return top / scale if scale else math.nan


@pytest.mark.parametrize("seed", range(20))
def test_likeness_agrees_with_counting_pairs_and_ranks(seed):
    a, b = draw(2 + seed % 9, seed)
    assert float(kendall(a, b)) == pytest.approx(slow_kendall(a.tolist(), b.tolist()), nan_ok=True)
    assert float(spearman(a, b)) == pytest.approx(slow_spearman(a.tolist(), b.tolist()), nan_ok=True)
    assert midranks(a).tolist() == slow_ranks(a.tolist())


@pytest.mark.parametrize("likeness", [kendall, spearman])
def test_an_order_is_like_itself_unlike_its_reverse_and_nothing_like_a_constant(likeness):
    a = torch.tensor([0.3, 0.1, 0.7, 0.2])
    assert float(likeness(a, a.exp())) == pytest.approx(1) and float(likeness(a, -a)) == pytest.approx(-1)
    assert likeness(a, torch.ones(4)).isnan() and likeness(a[:1], a[:1]).isnan()


@pytest.mark.parametrize("likeness", [kendall, spearman])
def test_what_is_no_number_has_no_rank_to_compare(likeness):
    a = torch.tensor([0.3, math.nan, 0.7, 0.2])
    assert likeness(a, a).isnan() and likeness(a.nan_to_num(), a).isnan()


def test_the_highest_score_has_the_first_place_and_padding_the_last():
    scores = torch.tensor([[0.2, 0.9, 9.0, 0.5], [1.0, 1.0, 1.0, 1.0]])
    valid = torch.tensor([[True, True, False, True], [True] * 4])
    noise = torch.tensor([[0.0] * 4, [0.3, 0.1, 0.4, 0.2]])
    assert places(scores, valid, noise).tolist() == [[2, 0, 3, 1], [2, 0, 3, 1]]


def test_a_share_of_units_is_rounded_up_or_to_the_nearest():
    valid = torch.arange(30) < torch.tensor([[30], [10], [7], [1]])
    assert count_up(0.1, valid).tolist() == [3, 1, 1, 1]
    assert count_up(0.5, valid).tolist() == [15, 5, 4, 1]
    assert count_up(1.0, valid).tolist() == [30, 10, 7, 1]
    assert count_near(0.5, valid).tolist() == [15, 5, 4, 1]
    assert count_near(0.15, valid).tolist() == [5, 2, 1, 0]


def test_only_real_units_count_in_a_row():
    values = torch.tensor([[1.0, 2.0, 5.0], [5.0, 1.0, 1.0]])
    assert per_row(torch.sum, torch.tensor([[True, True, False], [False, True, True]]), values).tolist() == [3, 2]
