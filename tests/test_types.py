"""Batches hold something, and predictions are read as what they are."""

import pytest
import torch

from diffmask.errors import DataError, ModelError
from diffmask.types import Batch, Bernoulli, Categorical, Value, check_finite

INF, NAN = float("inf"), float("nan")


def test_an_empty_sequence_is_refused_by_its_place_in_the_batch():
    valid = torch.tensor([[True, False], [False, False], [False, False]])
    with pytest.raises(DataError, match=r"example 1 of this batch has no units \(2 of 3 are empty\).*filter such"):
        Batch({}, valid)


def test_a_batch_with_no_units_at_all_is_refused():
    with pytest.raises(DataError, match="2 of 2 are empty"):
        Batch({}, torch.ones(2, 0, dtype=torch.bool))


def test_a_mask_of_integers_is_refused_with_what_to_pass(outside):
    complaint = outside("import torch, diffmask.types; diffmask.types.Batch({}, torch.ones(2, 3, dtype=torch.long))")
    wanted = "DataError: valid must be a bool tensor (example, unit), got torch.int64 of shape (2, 3): pass mask.bool()"
    assert wanted in complaint


def test_a_batch_is_as_long_as_its_examples(batch):
    assert len(batch) == 2


def test_moving_a_batch_moves_its_tensors_and_leaves_the_rest(monkeypatch):
    batch = Batch({"x": torch.zeros(1, 2), "flag": "yes"}, torch.ones(1, 2, dtype=torch.bool))
    moves = []
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, device: moves.append((tensor, device)) or tensor)
    moved = batch.to("cuda:3")
    assert [(id(tensor), device) for tensor, device in moves] == [
        (id(batch.inputs["x"]), "cuda:3"),
        (id(batch.valid), "cuda:3"),
    ]
    assert moved.inputs["flag"] == "yes"


def test_categories_are_log_probabilities_that_sum_to_one():
    head = Categorical(torch.tensor([[1.0, 2.0, -INF]]))
    expected = torch.tensor([[1 / (1 + torch.e), torch.e / (1 + torch.e), 0]])
    assert torch.allclose(head.log_probs().exp(), expected)
    assert head.decision().tolist() == [1]


def test_a_bernoulli_is_a_choice_between_no_and_yes():
    head = Bernoulli(torch.tensor([0.3, -40.0]))
    expected = torch.distributions.Bernoulli(logits=head.raw)
    yes, no = (expected.log_prob(torch.full((2,), answer)) for answer in (1.0, 0.0))
    assert torch.allclose(head.log_probs(), torch.stack([no, yes], -1))
    assert head.decision().tolist() == [1, 0]


def test_log_probabilities_of_a_half_precision_model_are_exact_to_float32():
    assert Categorical(torch.zeros(1, 3, dtype=torch.float16)).log_probs().dtype == torch.float32


@pytest.mark.parametrize("head", [Categorical, Bernoulli, Value])
@pytest.mark.parametrize("bad", [NAN, INF])
def test_nan_or_infinite_outputs_are_refused_with_their_name_and_example(head, bad):
    raw = torch.zeros(4, 3)
    raw[2, 1] = raw[3, 0] = bad
    wanted = (
        r"output 'label' is NaN or infinite here for 2 of 4 examples of a batch \(the first is number 2\): check the"
    )
    with pytest.raises(ModelError, match=wanted):
        check_finite({"fine": Value(torch.zeros(4)), "label": head(raw)}, " here")


def test_a_ruled_out_category_is_no_error():
    check_finite({"label": Categorical(torch.tensor([[0.0, -INF]]))})


@pytest.mark.parametrize("head", [Bernoulli, Value])
def test_minus_infinity_is_an_error_for_a_number(head):
    with pytest.raises(ModelError, match="1 of 2 examples"):
        check_finite({"x": head(torch.tensor([0.0, -INF]))})


def test_an_example_whose_every_category_is_ruled_out_is_refused():
    with pytest.raises(ModelError, match="1 of 2 examples"):
        check_finite({"label": Categorical(torch.tensor([[0.0, 1.0], [-INF, -INF]]))})
