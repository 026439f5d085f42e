"""A unit may have several positions: what is said of units reaches their positions, and the other way round."""

import pytest
import torch

from diffmask.types import Batch, Bernoulli, Categorical, Value, join_predictions, split_prediction

VALID = torch.tensor([[True, True, True], [True, False, False]])
PLACE = torch.tensor([[-1, 0, 0, 1, 2, -1], [0, -1, 0, -1, -1, -1]])


@pytest.fixture
def grouped() -> Batch:
    return Batch({"ids": torch.arange(12).view(2, 6)}, VALID, PLACE)


@pytest.fixture
def plain() -> Batch:
    return Batch({"ids": torch.arange(6).view(2, 3)}, VALID)


def slow_sums(state):
    found = torch.zeros(2, 3, state.shape[-1])
    for row in range(2):
        for position, unit in enumerate(PLACE[row].tolist()):
            if unit >= 0:
                found[row, unit] += state[row, position]
    return found


def test_adding_up_agrees_with_a_slow_loop(grouped):
    state = torch.randn(2, 6, 4)
    torch.testing.assert_close(grouped.add_up(state), slow_sums(state))


def test_pooling_is_the_mean_over_the_positions_of_a_unit(grouped):
    state = torch.randn(2, 6, 4)
    counts = slow_sums(torch.ones(2, 6, 1)).clamp_min(1)
    torch.testing.assert_close(grouped.pool(state), slow_sums(state) / counts)


def test_pooling_float16_adds_up_more_than_float16_holds():
    place = torch.zeros(1, 300, dtype=torch.long)
    batch = Batch({"attention_mask": place + 1}, torch.ones(1, 1, dtype=torch.bool), place)
    pooled = batch.pool(torch.full((1, 300, 2), 300.0, dtype=torch.float16))
    assert pooled.dtype == torch.float16 and pooled.eq(300).all()


def test_positions_of_no_unit_do_not_reach_any_unit(grouped):
    state = torch.randn(2, 6, 4)
    other = torch.where((PLACE < 0).unsqueeze(-1), torch.nan, state)
    assert torch.equal(grouped.add_up(other), grouped.add_up(state))
    assert torch.equal(grouped.pool(other), grouped.pool(state))


def test_spreading_lays_a_unit_out_over_its_positions_and_keeps_the_rest(grouped):
    keep = torch.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    expected = torch.tensor([[1.0, 0.1, 0.1, 0.2, 0.3, 1.0], [0.4, 1.0, 0.4, 1.0, 1.0, 1.0]])
    assert torch.equal(grouped.spread(keep), expected)


def test_dropping_every_unit_still_keeps_what_belongs_to_none(grouped):
    assert torch.equal(grouped.spread(torch.zeros_like(VALID)) == 1, PLACE < 0)


def test_a_place_in_a_unit_that_is_not_real_is_kept():
    batch = Batch({}, torch.tensor([[True, False]]), torch.tensor([[0, 1, 1]]))
    assert batch.spread(torch.zeros(1, 2)).tolist() == [[0, 1, 1]]


def test_without_places_every_position_is_its_own_unit(plain):
    state, keep = torch.randn(2, 3, 4), torch.rand(2, 3)
    assert plain.pool(state) is state and plain.add_up(state) is state
    assert torch.equal(plain.spread(keep), torch.where(VALID, keep, 1.0))


def test_places_that_say_so_are_the_same_as_none(plain):
    place = torch.where(VALID, torch.arange(3).expand(2, 3), -1)
    said, state, keep = Batch(plain.inputs, VALID, place), torch.randn(2, 3, 4), torch.rand(2, 3)
    assert torch.equal(said.spread(keep), plain.spread(keep))
    assert torch.equal(said.pool(state)[VALID], state[VALID])


def test_gradients_of_positions_add_up_to_those_of_units(grouped):
    keep = torch.rand(2, 3, requires_grad=True)
    weight = torch.randn(2, 6)
    (grouped.spread(keep) * weight).sum().backward()
    torch.testing.assert_close(keep.grad, slow_sums(weight.unsqueeze(-1)).squeeze(-1))


def test_the_shape_of_a_batch_counts_positions(grouped, plain):
    assert grouped.shape == (2, 6) and plain.shape == (2, 3)


def test_repeating_a_batch_repeats_everything_that_has_a_row_per_example():
    inputs = {"ids": torch.arange(12).view(2, 6), "table": torch.zeros(5), "scale": torch.tensor(2.0), "flag": True}
    batch = Batch(inputs, VALID, PLACE, torch.tensor([4, 1])).repeat(3)
    assert len(batch) == 6 and batch.shape == (6, 6)
    assert torch.equal(batch.place, torch.cat([PLACE] * 3)) and batch.ask.tolist() == [4, 1] * 3
    assert torch.equal(batch.inputs["ids"], torch.cat([inputs["ids"]] * 3))
    assert all(batch.inputs[name] is inputs[name] for name in ("table", "scale", "flag"))


def test_moving_a_batch_moves_its_places_and_what_is_asked(grouped, monkeypatch):
    batch, moved = Batch(grouped.inputs, VALID, PLACE, torch.tensor([4, 1])), []
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, device: moved.append(id(tensor)) or tensor)
    batch.to("cuda:3")
    assert sorted(moved) == sorted(id(t) for t in (batch.inputs["ids"], batch.valid, batch.place, batch.ask))


@pytest.mark.parametrize("head", [Categorical, Bernoulli, Value])
def test_a_prediction_for_copies_is_taken_apart_copy_by_copy(head):
    raws, reals = torch.randn(3, 2, 4, 5), torch.rand(3, 2, 4) > 0.5
    whole = {"answer": head(raws.flatten(0, 1), reals.flatten(0, 1)), "other": head(raws.flatten(0, 1))}
    parts = split_prediction(whole, 3)
    assert len(parts) == 3
    for copy, part in enumerate(parts):
        assert type(part["answer"]) is head and part["other"].real is None
        assert torch.equal(part["answer"].raw, raws[copy]) and torch.equal(part["answer"].real, reals[copy])
    again = join_predictions(parts)
    assert type(again["answer"]) is head and again["other"].real is None
    assert torch.equal(again["answer"].raw, whole["answer"].raw)
    assert torch.equal(again["answer"].real, whole["answer"].real)
