"""Sets that hold a margin of the caller's, and that do not depend on who else is in the batch."""

import pytest
import torch

from diffmask.errors import DataError, ExampleError, SettingError
from diffmask.explaining.certify import certify, with_margin
from diffmask.explaining.embedded import load_embedded
from diffmask.explaining.explain import explain
from diffmask.explaining.verify import measure
from diffmask.training.step import look

TEXTS = [
    "A fast, funny, highly enjoyable movie.",
    "Dull.",
    "Not bad at all, though it drags on and on in the middle, and the end is dull.",
    "I wanted to like it but the plot never goes anywhere and the jokes are old.",
    "It is neither good nor bad, it is a film, with a beginning, a middle and, at last, an end.",
]


@pytest.fixture(scope="module")
def fitted():
    return load_embedded()


@pytest.mark.parametrize("margin", [None, 1e-3, 0.05, 1.0])
def test_a_certified_set_does_not_depend_on_batch_mates(fitted, margin):
    together = certify(fitted, TEXTS, margin=margin)
    for text, mate in zip(TEXTS, together, strict=True):
        (alone,) = certify(fitted, [text], margin=margin)
        assert torch.equal(alone.kept, mate.kept)


def test_every_margin_of_the_callers_is_measured_to_hold_and_wider_ones_keep_fewer(fitted):
    counts = []
    for margin in (1e-4, 1e-2, 1.0, 100.0):
        found = certify(fitted, TEXTS, margin=margin)
        assert all(each.verified and each.verification.margin == margin == each.info["margin"] for each in found)
        counts.append(sum(int(each.kept.sum()) for each in found))
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[1] > counts[3] == 0


def divergence_without_its_last(fitted, text, found):
    """Measure what is kept without the unit of it that has the lowest score."""
    keep = found.kept.clone()
    keep[found.scores[found.depth].masked_fill(~keep, torch.inf).argmin()] = False
    with fitted.model.frozen():
        seen = look(fitted.model, fitted.task, fitted.task.collate([text]))
        return float(measure(fitted, seen, found.depth, keep.unsqueeze(0)).divergence)


@pytest.mark.parametrize("margin", [1e-4, 1e-3, 1e-2])
def test_a_repaired_set_breaks_the_margin_with_one_unit_fewer(fitted, margin):
    strict = with_margin(fitted, margin)
    before, after = explain(strict, TEXTS), certify(strict, TEXTS)
    repaired = [(text, new) for text, old, new in zip(TEXTS, before, after, strict=True) if not old.verified]
    assert repaired
    assert all(divergence_without_its_last(strict, *pair) > margin for pair in repaired)


@pytest.mark.parametrize("margin", [1e-3, 0.05])
def test_a_set_for_a_margin_of_the_callers_breaks_it_with_one_unit_fewer(fitted, margin):
    for text, found in zip(TEXTS, certify(fitted, TEXTS, margin=margin), strict=True):
        assert not found.kept.any() or divergence_without_its_last(fitted, text, found) > margin


def test_a_set_for_a_margin_of_the_callers_holds_the_highest_scores(fitted):
    (found,) = certify(fitted, TEXTS[2:3], margin=0.02)
    (whole,) = certify(fitted, TEXTS[2:3], margin=1e-6)
    assert 0 < int(found.kept.sum()) < int(whole.kept.sum())
    order = found.scores[-1].argsort(descending=True)
    assert set(order[: int(found.kept.sum())].tolist()) == set(found.kept.nonzero().flatten().tolist())


def test_another_margin_judges_the_same_set(fitted):
    strict, own = explain(with_margin(fitted, 1e-9), TEXTS), explain(fitted, TEXTS)
    assert all(torch.equal(one.kept, other.kept) for one, other in zip(strict, own, strict=True))
    assert not any(each.verified for each in strict)
    assert fitted.config.objective.margin == 0.1


def test_a_margin_of_nothing_is_refused(fitted):
    with pytest.raises(SettingError, match="margin must be positive"):
        certify(fitted, TEXTS, margin=0.0)


def test_a_set_may_have_to_keep_the_decision_whatever_the_margin(fitted):
    within, decided = (certify(fitted, TEXTS, margin=100.0, decision=asked) for asked in (False, True))
    assert not all(each.verification.same_prediction for each in within)
    assert all(each.verification.same_prediction and each.verified for each in decided)
    assert sum(int(each.kept.sum()) for each in decided) > sum(int(each.kept.sum()) for each in within)


def test_with_the_decision_both_have_to_hold(fitted):
    for each in certify(fitted, TEXTS, margin=0.01, decision=True):
        assert each.verification.divergence <= 0.01 and each.verification.same_prediction


def test_an_order_of_the_callers_is_cut_where_the_margin_holds(fitted):
    order = [-found.scores[-1].exp() for found in explain(fitted, TEXTS)]  # the worst there could be
    own, turned = certify(fitted, TEXTS, margin=0.05), certify(fitted, TEXTS, margin=0.05, order=order)
    assert sum(int(each.kept.sum()) for each in turned) > sum(int(each.kept.sum()) for each in own)
    for each, scores in zip(turned, order, strict=True):
        assert each.verified and each.info["order"] == scores.tolist()
        highest = scores.argsort(descending=True, stable=True)[: int(each.kept.sum())]
        assert set(highest.tolist()) == set(each.kept.nonzero().flatten().tolist())


def test_the_probes_own_order_given_back_to_it_makes_the_same_sets(fitted):
    own = certify(fitted, TEXTS, margin=0.05)
    again = certify(fitted, TEXTS, margin=0.05, order=[each.scores[-1] for each in own])
    assert all(torch.equal(one.kept, other.kept) for one, other in zip(own, again, strict=True))
    assert all("order" not in each.info for each in own)


def test_an_order_is_cut_without_a_margin_of_the_callers_too_and_may_keep_fewer(fitted):
    own = explain(fitted, TEXTS)
    again = certify(fitted, TEXTS, order=[each.scores[-1] for each in own])
    assert all(each.verified and each.kept.sum() <= first.kept.sum() for each, first in zip(again, own, strict=True))
    assert sum(int(each.kept.sum()) for each in again) < sum(int(each.kept.sum()) for each in own)


def test_an_order_is_each_examples_own_though_those_of_like_length_go_together(fitted):
    order = [torch.rand(len(units)).numpy() for units in fitted.task.units(TEXTS)]  # any numbers serve
    whole, parted = (certify(fitted, TEXTS, margin=0.05, order=order, batch_size=size) for size in (64, 2))
    for row, (one, other) in enumerate(zip(whole, parted, strict=True)):
        (alone,) = certify(fitted, TEXTS[row : row + 1], margin=0.05, order=[order[row].tolist()])
        assert torch.equal(one.kept, other.kept) and torch.equal(one.kept, alone.kept)
        assert one.info["order"] == order[row].tolist()


def test_an_order_that_orders_nothing_is_refused_by_its_example(fitted):
    right = [each.scores[-1] for each in explain(fitted, TEXTS)]
    with pytest.raises(DataError, match="order has the scores of 4 examples, and 5 are explained"):
        certify(fitted, TEXTS, order=right[:4])
    with pytest.raises(ExampleError, match=r"example 1: order has scores of shape \(3,\) for 4 units"):
        certify(fitted, TEXTS, order=[right[0], torch.ones(3), *right[2:]])
    with pytest.raises(ExampleError, match="example 2: order has a score that is NaN or infinite"):
        certify(fitted, TEXTS, order=[*right[:2], right[2] / 0, *right[3:]])
    with pytest.raises(ExampleError, match=r"example 1: order has scores of shape \(4, 1\) for 4 units"):
        certify(fitted, TEXTS, order=[right[0], right[1].unsqueeze(1), *right[2:]])
    with pytest.raises(ExampleError, match="example 0: order takes a number for each unit, got Explanation"):
        certify(fitted, TEXTS, order=explain(fitted, TEXTS))
    for none in (iter(right), dict(enumerate(right))):
        with pytest.raises(DataError, match="order takes a list with the scores of each example, got "):
            certify(fitted, TEXTS, order=none)
