import math

import pytest
import torch

from diffmask.errors import DataError
from diffmask.evaluation.ground_truth import divergence_to_truth


def both(scores, truth, valid=None):
    truth = torch.tensor([truth], dtype=torch.bool)
    valid = torch.ones_like(truth) if valid is None else torch.tensor([valid], dtype=torch.bool)
    found = divergence_to_truth(torch.tensor([scores]), truth, valid)
    return found.kl.item(), found.js.item()


def test_the_truth_itself_scores_zero_whatever_its_scale():
    assert both([7.0, 7.0, 0.0], [1, 1, 0]) == pytest.approx((0, 0), abs=1e-12)


def test_uniform_scores_miss_by_the_log_of_the_share_that_matters():
    kl, js = both([1.0, 1.0, 1.0, 1.0], [1, 0, 0, 0])
    middle = [0.625, 0.125, 0.125, 0.125]
    expected = 0.5 * math.log(1 / 0.625) + 0.5 * sum(0.25 * math.log(0.25 / m) for m in middle)
    assert (kl, js) == pytest.approx((math.log(4), expected))


def test_a_true_unit_with_score_zero_is_infinitely_wrong_in_kl_and_bounded_in_js():
    kl, js = both([0.0, 1.0], [1, 0])
    assert kl == math.inf
    assert js == pytest.approx(math.log(2))


def test_scores_of_nothing_say_what_uniform_ones_say():
    valid = [1, 1, 1, 0]
    assert both([0.0, 0.0, 0.0, 0.0], [1, 0, 0, 0], valid) == both([2.0, 2.0, 2.0, 2.0], [1, 0, 0, 0], valid)


def test_scores_on_padding_do_not_count():
    assert both([1.0, 0.0, 5.0], [1, 0, 0], valid=[1, 1, 0]) == pytest.approx((0, 0), abs=1e-12)


def test_no_truth_at_all_is_an_error():
    with pytest.raises(DataError, match="no truth to compare with"):
        both([1.0, 1.0], [0, 0])
