"""A task made of tensors in hand."""

import pytest
import torch

from diffmask.errors import DataError, UnknownNameError
from diffmask.objective.divergence import agreement, divergence
from diffmask.tasks.tensors import HEADS, TensorTask
from diffmask.types import Bernoulli, Categorical, Value, check_finite

X, VALID = torch.arange(40).reshape(20, 2), torch.ones(20, 2, dtype=torch.bool)


def test_the_last_tenth_is_held_out():
    task = TensorTask({"x": X}, VALID)
    assert list(task.train) == list(range(18)) and list(task.validation) == [18, 19]


def test_as_many_as_asked_are_held_out():
    assert len(TensorTask({"x": X}, VALID, validation_count=7).validation) == 7


def test_a_single_pair_of_examples_still_splits():
    task = TensorTask({"x": X[:2]}, VALID[:2])
    assert (len(task.train), len(task.validation)) == (1, 1)


def test_a_batch_holds_the_rows_asked_for():
    task = TensorTask({"x": X, "y": -X}, VALID)
    batch = task.collate([3, 0])
    assert torch.equal(batch.inputs["x"], X[[3, 0]]) and torch.equal(batch.inputs["y"], -X[[3, 0]]) and len(batch) == 2


@pytest.mark.parametrize(("kind", "head"), [("categorical", Categorical), ("bernoulli", Bernoulli), ("value", Value)])
def test_the_output_is_read_as_what_it_is_said_to_be(kind, head):
    task = TensorTask({"x": X}, VALID, kind)
    prediction = task.read(torch.zeros(2, 3), task.collate([0, 1]))
    assert {name: type(found) for name, found in prediction.items()} == {"output": head}


def test_the_output_may_be_read_by_a_function():
    task = TensorTask({"x": X}, VALID, lambda output: {"start": Categorical(output[0]), "end": Categorical(output[1])})
    assert list(task.read((torch.zeros(2, 3), torch.ones(2, 3)), task.collate([0, 1]))) == ["start", "end"]


def test_an_unknown_kind_of_output_gets_the_nearest():
    with pytest.raises(UnknownNameError, match="no kind of output named 'categorial'; did you mean 'categorical'"):
        TensorTask({"x": X}, VALID, "categorial")


def test_inputs_of_another_length_are_named_with_both_lengths():
    with pytest.raises(DataError, match="'y' has 19 rows and valid has 20: give one per example"):
        TensorTask({"x": X, "y": X[1:]}, VALID)


@pytest.mark.parametrize("count", [0, 20, 21])
def test_both_sides_of_the_split_hold_something(count):
    with pytest.raises(DataError, match=f"{count} of 20 examples were to be held out .*one on each side"):
        TensorTask({"x": X}, VALID, validation_count=count)


def test_an_empty_sequence_is_refused_at_once_by_its_row():
    valid = VALID.clone()
    valid[4] = False
    with pytest.raises(DataError, match=r"example 4 .*has no units \(1 of 20 are empty\)"):
        TensorTask({"x": X}, valid)


def test_names_for_another_number_of_rows_or_units_are_refused():
    with pytest.raises(DataError, match="units has 19 rows and valid has 20"):
        TensorTask({"x": X}, VALID, units=[["a", "b"]] * 19)
    with pytest.raises(DataError, match="row 1 has 2 real units and 1 names for them"):
        TensorTask({"x": X}, VALID, units=[["a", "b"], ["a"], *[["a", "b"]] * 18])


def test_an_input_may_be_called_units_and_is_checked_like_any_other():
    with pytest.raises(DataError, match="'units' has 19 rows and valid has 20"):
        TensorTask({"units": X[1:]}, VALID)


def per_unit_task(output):
    valid = VALID.clone()
    valid[1, 1] = False
    return TensorTask({"x": X}, valid, output, per_unit=True)


@pytest.mark.parametrize(("output", "shape"), [("categorical", (2, 2, 3)), ("bernoulli", (2, 2)), ("value", (2, 2))])
def test_what_a_model_answers_for_padding_does_not_count(output, shape):
    task = per_unit_task(output)
    batch = task.collate([0, 1])
    original, masked = torch.zeros(shape), torch.zeros(shape)
    original[1, 1], masked[1, 1] = torch.nan, 5.0  # the padding of the second example
    one, other = task.read(original, batch), task.read(masked, batch)
    check_finite(one)
    assert divergence(one, other).tolist() == [0, 0]
    masked[1, 0] = torch.arange(3.0) if output == "categorical" else 1.0
    changed = divergence(one, task.read(masked, batch))
    assert changed[0] == 0 and changed[1] > 0


def test_agreement_does_not_count_padding_either():
    task = per_unit_task("bernoulli")
    batch = task.collate([0, 1])
    one, other = (task.read(torch.full((2, 2), logit), batch) for logit in (1.0, -1.0))
    assert agreement(one, other).tolist() == [0, 0]


def test_units_are_numbered_unless_named():
    valid = VALID.clone()
    valid[1, 1] = False
    assert TensorTask({"x": X}, valid).units([0, 1]) == [["0", "1"], ["0"]]


def test_every_entry_of_the_table_exists():
    assert [HEADS.get(name) for name in HEADS.names] == [Categorical, Bernoulli, Value]
