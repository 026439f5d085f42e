"""What a prediction from some of the units is worth."""

import pytest
import torch

from diffmask.objective.worth import worth
from diffmask.types import Bernoulli, Categorical, Value


def labels(*logits):
    return {"label": Categorical(torch.tensor([list(logits)]))}


def test_log_odds_and_probability_are_of_what_was_decided():
    original, masked = labels(2.0, 0.0, 0.0), labels(0.0, 1.0, 0.0)
    p = 1 / (2 + torch.e)
    assert float(worth(original, masked, "probability")) == pytest.approx(p)
    assert float(worth(original, masked)) == pytest.approx(float(torch.logit(torch.tensor(p))), abs=1e-6)


def test_the_log_odds_of_a_yes_or_no_are_its_logit_with_the_sign_of_the_decision():
    original = {"y": Bernoulli(torch.tensor([3.0, -2.0]))}
    masked = {"y": Bernoulli(torch.tensor([-1.0, -0.5]))}
    torch.testing.assert_close(worth(original, masked), torch.tensor([-1.0, 0.5]))


def test_nothing_counts_beyond_the_most_even_where_the_model_is_certain():
    found = [worth(labels(50.0, 0.0), labels(logit, 0.0)) for logit in (80.0, -80.0)]
    assert [float(each) for each in found] == [5.0, -5.0]


def test_a_value_is_worth_minus_its_squared_error_and_a_divergence_minus_itself():
    one, other = {"y": Value(torch.tensor([1.0, 2.0]))}, {"y": Value(torch.tensor([3.0, 2.0]))}
    assert worth(one, other).tolist() == [-4.0, 0.0]
    assert float(worth(labels(1.0, 0.0), labels(0.0, 0.0), "kl")) < 0
