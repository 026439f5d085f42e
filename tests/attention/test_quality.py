"""Accuracy, F1 and area against counting."""

import pytest
import torch

from diffmask.attention.quality import area_under_curve, f1_score, measure_quality
from diffmask.errors import DataError


def test_the_area_counts_pairs_in_the_right_order_and_ties_half():
    torch.manual_seed(0)
    margin, positive = torch.randint(0, 5, (40,)).float(), torch.rand(40) < 0.4
    pairs = [float(a > b) + 0.5 * float(a == b) for a in margin[positive] for b in margin[~positive]]
    assert area_under_curve(margin, positive) == pytest.approx(sum(pairs) / len(pairs))


def test_yes_or_no_by_one_logit_or_two_is_the_same():
    torch.manual_seed(0)
    margin, labels = torch.randn(30), torch.randint(0, 2, (30,))
    one = measure_quality(margin.unsqueeze(1), labels)
    two = measure_quality(torch.stack([torch.zeros(30), margin], 1), labels)
    assert one == two
    assert one.accuracy == pytest.approx(((margin > 0).long() == labels).double().mean().item())


def test_f1_is_of_class_one_and_zero_when_it_is_never_found():
    labels = torch.tensor([1, 1, 0, 0])
    assert measure_quality(torch.tensor([[1.0], [-1.0], [1.0], [-1.0]]), labels).f1 == 0.5
    assert measure_quality(torch.full((4, 1), -1.0), labels).f1 == 0
    assert f1_score(torch.tensor([False]), torch.tensor([False])) == 0


def test_three_classes_have_a_mean_f1_and_no_area():
    found = measure_quality(torch.eye(3), torch.tensor([0, 1, 1]))
    assert found.f1 == pytest.approx((1 + 2 / 3 + 0) / 3) and found.auc is None


def test_one_class_has_no_area():
    with pytest.raises(DataError, match="both classes"):
        area_under_curve(torch.zeros(3), torch.ones(3, dtype=torch.bool))
