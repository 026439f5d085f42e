"""Putting other states at a site: only where a unit is gated, and only if a gradient comes back."""

import torch

from diffmask.training.perturb import gated_positions, lay_out, predict_from
from diffmask.training.step import look
from diffmask.types import Batch
from toys import EVIDENCE, evidence_model, evidence_task


def test_units_are_laid_out_over_their_positions():
    place = torch.tensor([[-1, 0, 0, 1], [0, 1, -1, -1]])
    batch = Batch({}, torch.tensor([[True, True], [True, False]]), place)
    assert gated_positions(batch).tolist() == [[False, True, True, True], [True, False, False, False]]
    found = lay_out(torch.tensor([[[1.0, 2], [3, 4]], [[5, 6], [7, 8]]]), batch)
    assert found[0, 1:].tolist() == [[1, 2], [1, 2], [3, 4]] and found[1, 0].tolist() == [5, 6]


def test_without_places_a_unit_is_a_position():
    batch, values = Batch({}, torch.tensor([[True, False]])), torch.randn(1, 2, 3)
    assert torch.equal(lay_out(values, batch), values) and gated_positions(batch).tolist() == [[True, False]]


def test_another_state_is_predicted_from_with_its_gradient_and_padding_keeps_its_own():
    model, task = evidence_model(), evidence_task()
    seen = look(model, task, task.collate(range(5)))
    state = torch.randn(seen.states["block 1"].shape, requires_grad=True)
    with model.frozen():
        value = predict_from(seen, "block 1", state)["output"].raw
    expected = (state @ EVIDENCE * seen.batch.valid).sum(1)
    torch.testing.assert_close(value, expected)
    (slope,) = torch.autograd.grad(value.sum(), state)
    torch.testing.assert_close(slope, EVIDENCE * seen.batch.valid.unsqueeze(-1))


def test_the_state_that_was_seen_gives_the_original_prediction():
    model, task = evidence_model(), evidence_task()
    seen = look(model, task, task.collate(range(5)))
    with model.frozen():
        again = predict_from(seen, "embedding", seen.states["embedding"])["output"].raw
    model.model.eval()
    assert torch.equal(again, look(model, task, seen.batch).original["output"].raw)
