"""The published digit data, fact by fact."""

import math

import pytest
import torch

from diffmask.tasks.digits import DigitCounting, draw_digits, labels, truth


@pytest.fixture(scope="module")
def task() -> DigitCounting:
    return DigitCounting()


@pytest.fixture(scope="module")
def published(task):
    return task.collate(task.test)


def rows(batch):
    """Each example as plain Python: its two query digits and its digits without padding."""
    for query, digits, length in zip(*(batch.inputs[k].tolist() for k in ("query", "digits", "length")), strict=True):
        yield query, digits[:length]


def test_the_authors_validation_set_is_the_test_set_and_nothing_is_selected_on_it(task):
    assert (task.train, task.validation, task.test) == (range(8000), range(8000, 9000), range(9000, 10_000))


def test_the_share_of_positive_labels_is_the_published_one(published):
    assert int(labels(published).sum()) == 362


def test_labels_are_what_counting_says(published):
    counted = [float(digits.count(a) > digits.count(b)) for (a, b), digits in rows(published)]
    assert labels(published).tolist() == counted


def test_the_truth_after_the_query_is_every_unit_that_holds_a_query_digit(published):
    for (query, digits), mask in zip(rows(published), truth(published, 1).tolist(), strict=True):
        assert mask == [digit in query for digit in digits] + [False] * (10 - len(digits))


def test_the_truth_before_the_query_is_every_unit(published):
    assert torch.equal(truth(published, 0), published.valid)


def test_examples_with_a_query_digit_are_as_many_as_published(published):
    assert int(truth(published, 1).any(1).sum()) == 914


def test_a_uniform_attribution_is_as_far_from_the_truth_as_published(published):
    distances = []
    for query, digits in rows(published):
        true = sum(digit in query for digit in digits)
        if true:
            distances.append(sum(1 / true * math.log((1 / true) / (1 / len(digits))) for _ in range(true)))
    assert len(distances) == 914 and sum(distances) / 914 == pytest.approx(0.6519, abs=5e-5)


def test_queries_are_two_different_digits_and_lengths_from_one_to_ten(task):
    data = task.data
    assert bool((data.query[:, 0] != data.query[:, 1]).all())
    assert data.length.unique().tolist() == list(range(1, 11)) and data.digits.unique().tolist() == list(range(10))


def test_query_digits_are_drawn_half_of_the_time(task):
    batch = task.collate(task.train)
    assert float(truth(batch, 1).sum() / batch.valid.sum()) == pytest.approx(0.5, abs=0.01)


def test_padding_is_not_valid_and_is_no_truth(published):
    assert published.valid.sum(1).tolist() == published.inputs["length"].tolist()
    assert not bool((truth(published, 1) & ~published.valid).any())
    assert not bool(published.inputs["digits"][~published.valid].any())


def test_another_seed_draws_other_data_and_the_same_seed_the_same():
    draw = draw_digits.__wrapped__
    assert torch.equal(draw(1).digits, draw(1).digits) and not torch.equal(draw(1).digits, draw(0).digits)


def test_units_are_the_digits_themselves(task):
    examples = task.validation[:5]
    assert task.units(examples) == [[str(d) for d in digits] for _, digits in rows(task.collate(examples))]


def test_the_prediction_is_a_yes_or_no(task):
    (head,) = task.read(torch.tensor([2.0, -1.0]), task.collate([0, 1])).values()
    assert head.decision().tolist() == [1, 0]
