"""Hits and average precision, against all orders of equal scores."""

import math
from dataclasses import replace
from itertools import pairwise, permutations

import pytest
import torch

from diffmask.evaluation.auroc import auroc
from diffmask.evaluation.hits import count_hits, expected_precision
from diffmask.evaluation.set_overlap import F1, Precision, Recall
from diffmask.evaluation.truth_divergence import TruthJS, TruthKL


def draw(seed, units=6):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(3, (units,), generator=generator).float()
    return scores, torch.rand(units, generator=generator) < 0.5


def orders(scores):
    """List every order in which scores never rise."""
    return [o for o in permutations(range(len(scores))) if all(scores[a] >= scores[b] for a, b in pairwise(o))]


def slow_average_precision(order, marked):
    found, total = 0, 0.0
    for place, unit in enumerate(order, start=1):
        if marked[unit]:
            found += 1
            total += found / place
    return total / found if found else math.nan


@pytest.mark.parametrize("seed", range(15))
def test_average_precision_is_the_mean_over_all_orders_of_equal_scores(seed):
    scores, marked = draw(seed)
    each = [slow_average_precision(order, marked.tolist()) for order in orders(scores.tolist())]
    assert float(expected_precision(scores, marked)) == pytest.approx(sum(each) / len(each), nan_ok=True)


@pytest.mark.parametrize("seed", range(15))
def test_hits_among_the_highest_are_the_mean_over_all_orders_of_equal_scores(seed):
    scores, marked = draw(seed)
    count = int(marked.sum())
    each = [sum(bool(marked[unit]) for unit in order[:count]) for order in orders(scores.tolist())]
    row, valid = marked.unsqueeze(0), torch.ones(1, 6, dtype=torch.bool)
    found = count_hits(scores.unsqueeze(0), row, valid)
    expected = sum(each) / len(each) / count if count else math.nan
    for figure in (found.precision(), found.recall(), found.f1()):
        assert float(figure) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("seed", range(15))
def test_auroc_is_the_share_of_pairs_in_the_right_order(seed):
    scores, marked = draw(seed)
    pairs = [(a, b) for a in scores[marked].tolist() for b in scores[~marked].tolist()]
    expected = sum((a > b) + (a == b) / 2 for a, b in pairs) / len(pairs) if pairs else math.nan
    assert float(auroc(scores, marked)) == pytest.approx(expected, nan_ok=True)


def test_what_stands_on_padding_is_never_picked_nor_at_the_border():
    scores = torch.tensor([[0.5, 0.0, 0.0, 0.9, 0.0]])
    marked, valid = torch.tensor([[True, True, False, False, False]]), torch.tensor([[True, True, True, False, False]])
    found = count_hits(scores, marked, valid)
    assert float(found.both) == pytest.approx(1.5)  # the first, and one of the two that tie, half of the time


def test_above_a_threshold_precision_recall_and_f1_are_counted(toys):
    case = toys.judge(rows=range(2))
    truth = torch.tensor([[1, 1, 0, 0, 1, 0, 0, 0]] * 2).bool() & case.question.batch.valid
    scores = torch.tensor([[0.9, 0.1, 0.8, 0.5, 0.6, 0.0, 0.0, 0.0], [0.1] * 8])
    case = replace(case, scores=scores, truth=truth)
    picked = (scores > 0.5) & case.question.batch.valid
    both, said, meant = (picked & truth).sum(1), picked.sum(1), truth.sum(1)
    precision, recall, f1 = (m(kept="threshold")(case) for m in (Precision, Recall, F1))
    assert float(precision[0]) == pytest.approx(float(both[0] / said[0])) and precision[1].isnan()
    assert recall.tolist() == pytest.approx((both / meant).tolist()) and float(f1[1]) == 0
    assert float(f1[0]) == pytest.approx(float(2 * both[0] / (said[0] + meant[0])))
    assert Precision().ranks_only and not Precision(kept="threshold").ranks_only


def test_the_divergence_to_the_truth_stays_with_its_example(toys):
    case = toys.judge(toys.Noise(), rows=range(6))
    truth = case.truth.clone()
    truth[[1, 4]] = False
    some, all_of_them = (replace(case, truth=t) for t in (truth, case.truth))
    for metric in (TruthKL(), TruthJS()):
        found, expected = metric(some), metric(all_of_them)
        assert found.isnan().tolist() == [False, True, False, False, True, False]
        torch.testing.assert_close(found[[0, 2, 3, 5]], expected[[0, 2, 3, 5]])
