"""Recordings are CUDA graphs; here, where there is no GPU, something that remembers its run stands in for them."""

from dataclasses import replace

import pytest
import torch

from diffmask.explaining.explain import explain
from diffmask.explaining.recorded import MOST, Recorded, Take, recorded, shape_of
from diffmask.training.fit import fit
from diffmask.types import Batch
from toys import evidence_model, evidence_task, small_recipe


class Tape:
    """Computes again what was computed when it was recorded, into the same memory."""

    def __init__(self, run, batch):
        self.run, self.batch, self.found = run, batch, run(batch)

    def replay(self):
        self.found.copy_(self.run(self.batch))

    def pool(self):
        return id(self)


def on_tape(run, own, pool=None):
    tape = Tape(run, own)
    return Take(own, tape, tape.found)


def batch_of(rows, units=3, **more):
    tokens = torch.arange(rows * units).view(rows, units)
    return Batch({"tokens": tokens, **more}, torch.ones(rows, units, dtype=torch.bool))


def doubled(batch):
    return 2.0 * batch.inputs["tokens"]


def test_the_first_batch_of_a_shape_runs_and_the_second_is_recorded():
    made = []
    again = Recorded(doubled, lambda run, batch, pool: made.append(batch) or on_tape(run, batch))
    assert torch.equal(again(batch_of(2)), 2.0 * batch_of(2).inputs["tokens"]) and not made
    again(batch_of(4))
    assert not made  # another shape
    again(batch_of(2))
    assert len(made) == 1


def test_a_replay_answers_for_its_own_batch():
    again = Recorded(doubled, on_tape)
    for shift in range(4):
        batch = batch_of(2)
        batch.inputs["tokens"].add_(shift)
        assert torch.equal(again(batch), 2.0 * batch.inputs["tokens"])


def test_a_recording_leaves_the_callers_batch_alone():
    again, first = Recorded(doubled, on_tape), batch_of(2)
    before = first.inputs["tokens"].clone()
    again(first), again(first)
    other = batch_of(2)
    other.inputs["tokens"].add_(5)
    again(other)
    assert torch.equal(first.inputs["tokens"], before)


def test_what_cannot_be_recorded_runs_as_it_is_and_is_not_tried_again():
    tried = []

    def refuse(run, batch, pool):
        tried.append(batch)
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    again = Recorded(doubled, refuse)
    for _ in range(4):
        assert torch.equal(again(batch_of(2)), 2.0 * batch_of(2).inputs["tokens"])
    assert len(tried) == 1


def test_recordings_of_all_shapes_share_the_memory_of_the_first():
    pools = []
    again = Recorded(doubled, lambda run, batch, pool: pools.append(pool) or on_tape(run, batch))
    for rows in (2, 2, 3, 3, 4, 4):
        again(batch_of(rows))
    first = again.takes[shape_of(batch_of(2))].graph.pool()
    assert pools == [None, first, first]


def test_a_shape_is_all_a_recording_depends_on():
    same = shape_of(batch_of(2))
    assert shape_of(batch_of(2)) == same
    asked = Batch(batch_of(2).inputs, batch_of(2).valid, ask=torch.zeros(2, dtype=torch.long))
    others = [batch_of(3), batch_of(2, units=4), batch_of(2, use_cache=False), asked]
    assert len({shape_of(other) for other in others} | {same}) == 5


@pytest.fixture(scope="module")
def fitted():
    return fit(evidence_model(), evidence_task(), small_recipe(steps=20))


@pytest.fixture
def on_a_gpu(monkeypatch, fitted):
    monkeypatch.setattr(type(fitted.model), "device", property(lambda self: torch.device("cuda")))
    fitted.recordings.clear()


def run_of(fitted):
    return lambda batch: batch


def test_without_a_gpu_nothing_is_recorded(fitted):
    run = run_of(fitted)
    assert recorded(fitted, 0, run) is run
    explain(fitted, fitted.task.validation[:4], record=True)
    assert not fitted.recordings


def test_every_depth_is_recorded_apart_and_so_is_what_is_not_verified(fitted, monkeypatch):
    keys = []
    monkeypatch.setattr("diffmask.explaining.explain.recorded", lambda _, about, run: keys.append(about) or run)
    for depth in (0, 1, 2, -1):
        for verify in (True, False):
            explain(fitted, fitted.task.validation[:4], depth=depth, verify=verify, record=True)
    assert len(set(keys[:6])) == 6 and keys[6:] == keys[4:6]


def test_recordings_are_kept_for_the_next_call(fitted, on_a_gpu):
    first = recorded(fitted, 0, run_of(fitted))
    assert isinstance(first, Recorded) and recorded(fitted, 0, run_of(fitted)) is first
    assert recorded(fitted, 1, run_of(fitted)) is not first


def test_a_probe_that_changed_is_recorded_anew(fitted, on_a_gpu):
    first = recorded(fitted, 0, run_of(fitted))
    with torch.no_grad():
        fitted.probe.shift.add_(0)
    assert recorded(fitted, 0, run_of(fitted)) is not first


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: patch.setattr(torch.backends.cudnn, "allow_tf32", not torch.backends.cudnn.allow_tf32),
        lambda patch: patch.setattr(torch, "get_autocast_dtype", lambda _: torch.bfloat16),
        lambda patch: patch.setattr(torch, "get_float32_matmul_precision", lambda: "medium"),
    ],
)
def test_another_precision_is_recorded_anew(fitted, on_a_gpu, monkeypatch, change):
    first = recorded(fitted, 0, run_of(fitted))
    change(monkeypatch)
    assert recorded(fitted, 0, run_of(fitted)) is not first


def test_pytorchs_newer_way_to_set_precision_is_read_too(fitted, on_a_gpu, monkeypatch):
    def mixed():
        raise RuntimeError("mix of the legacy and new APIs")

    monkeypatch.setattr(torch, "get_float32_matmul_precision", mixed)
    assert isinstance(recorded(fitted, 0, run_of(fitted)), Recorded)


def test_a_buffer_that_is_elsewhere_is_recorded_anew(fitted, on_a_gpu, monkeypatch):
    model = fitted.model.model
    monkeypatch.setitem(model._buffers, "scale", torch.ones(3))
    first = recorded(fitted, 0, run_of(fitted))
    assert recorded(fitted, 0, run_of(fitted)) is first
    model._buffers["scale"] = torch.ones(3)
    assert recorded(fitted, 0, run_of(fitted)) is not first


def test_a_fit_keeps_few_recordings_those_used_last(fitted, on_a_gpu):
    first = recorded(fitted, 0, run_of(fitted))
    for number in range(1, MOST):
        recorded(fitted, number, run_of(fitted))
    assert recorded(fitted, 0, run_of(fitted)) is first  # used again
    recorded(fitted, MOST, run_of(fitted))
    assert len(fitted.recordings) == MOST
    assert {key[0] for key in fitted.recordings} == {0, *range(2, MOST + 1)}


def test_another_fit_of_the_same_model_has_recordings_of_its_own(fitted, on_a_gpu):
    first, other = recorded(fitted, 0, run_of(fitted)), replace(fitted)
    assert not other.recordings and recorded(other, 0, run_of(other)) is not first
