"""Who is first in a comparison: by hand, whichever way a metric counts, with those that cannot be told from it."""

import math

import pytest
import torch

from diffmask.evaluation.comparison import Comparison

FIGURES = {
    "good": [0.9, 0.8, 0.9, 0.8, 0.9, 0.8],
    "as-good": [0.8, 0.9, 0.8, 0.9, 0.8, 0.9],
    "bad": [0.1, 0.2, 0.1, 0.2, 0.1, 0.2],
    "silent": [math.nan] * 6,
}


def compared(better, given=FIGURES):
    figures = {name: {"metric": torch.tensor(values, dtype=torch.double)} for name, values in given.items()}
    return Comparison(figures, {"metric": better}, {}, [], {"seed": 0})


def test_the_highest_is_first_and_what_cannot_be_told_from_it_beside():
    first = compared("higher").first("metric")
    assert set(first) == {"good", "as-good"}


def test_where_lower_is_better_the_lowest_is_first():
    assert compared("lower").first("metric") == ["bad"]


def test_a_difference_is_taken_example_by_example():
    gap = compared("higher").difference("good", "bad", "metric")
    assert gap.mean == pytest.approx(0.7) and 0 < gap.low <= gap.mean <= gap.high


def test_methods_that_say_nothing_are_never_first():
    record = compared("higher").record()
    assert "silent" not in record["first"]["metric"]
    assert [row["undefined"] for row in record["rows"] if row["method"] == "silent"] == [6]


def test_a_method_that_fails_on_hard_examples_is_not_first_for_it():
    hard = {"steady": [0.9, 0.9, 0.9, 0.2, 0.2, 0.2], "picky": [0.8, 0.8, 0.8, math.nan, math.nan, math.nan]}
    assert compared("higher", hard).first("metric") == ["steady"]


def test_methods_that_never_answer_for_the_same_example_cannot_be_compared():
    apart = {"one": [0.9, math.nan], "other": [math.nan, 0.1]}
    assert compared("higher", apart).first("metric") == []
