"""τ-b with its nulls, entropy, and how the undefined is counted."""

import math

import pytest
import torch

from diffmask.attention.agreement import agree, normalised_entropy, shared_support_null, tally, truncate
from diffmask.objective.ranking import kendall


def test_attention_is_compared_over_all_words_over_its_support_and_before_it_tied():
    attention = torch.tensor([[0.5, 0.5, 0.0, 0.0, 0.0], [0.7, 0.2, 0.1, 0.0, 9.0]])
    scores = torch.tensor([[3.0, 3.1, 1.0, 2.0, 0.5], [7.0, 2.0, 1.0, -1.0, 9.0]])
    importance = torch.tensor([[0.4, 0.3, 0.2, 0.1, 0.0], [0.1, 0.2, 0.3, 0.4, 9.0]])
    attended = torch.tensor([[True] * 5, [True] * 4 + [False]])
    found = agree(attention, scores, importance, attended)
    assert torch.equal(found.every[0], kendall(attention[0], importance[0]))
    assert found.support[0].isnan() and found.support[1] == -1  # both of the first have the same weight
    assert found.untied[1] == -1 and torch.equal(found.untied[0], kendall(scores[0], importance[0]))


@pytest.mark.parametrize(
    ("words", "support", "expected"), [(180, 5, 0.989), (180, 20, 0.944), (18, 3, 0.938), (4, 4, 0)]
)
def test_random_values_on_a_shared_support_agree_as_the_formula_says(words, support, expected):
    found = float(shared_support_null(torch.tensor([support]), torch.tensor([words])))
    assert found == pytest.approx(expected, abs=1e-3)
    generator, drawn = torch.Generator().manual_seed(0), []
    for _ in range(200):
        first, second = torch.zeros(2, words), torch.rand(2, support, generator=generator)
        first[:, :support] = second
        drawn.append(kendall(first[0], first[1]))
    assert float(torch.stack(drawn).mean()) == pytest.approx(found, abs=0.05)


def test_truncated_attention_keeps_the_highest():
    attention, attended = torch.tensor([[0.1, 0.4, 0.2, 0.3, 0.9]]), torch.tensor([[True, True, True, True, False]])
    assert torch.equal(truncate(attention, attended, torch.tensor([2])), torch.tensor([[0, 0.4, 0, 0.3, 0]]))


def test_entropy_is_one_for_uniform_shares_and_zero_for_one_word():
    attended = torch.tensor([[True, True, False], [True, True, True], [True, False, False], [True, True, False]])
    shares = torch.tensor([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    found = normalised_entropy(shares, attended)
    assert found[0] == pytest.approx(1) and found[1] == 0 and found[2:].isnan().all()


def test_what_is_undefined_is_counted_and_never_averaged_in():
    found = tally(torch.tensor([1.0, math.nan, 3.0]))
    assert (found.mean, found.sd, found.count, found.undefined) == (2.0, 1.0, 2, 1)
    nothing = tally(torch.tensor([math.nan]))
    assert math.isnan(nothing.mean) and (nothing.count, nothing.undefined) == (0, 1)
