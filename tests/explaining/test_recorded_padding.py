"""A recording made of a batch without padding must answer for one with it.

Here, without a GPU, a graph of operators stands in for a CUDA graph: it computes what it recorded with whatever numbers
come, and refuses to be recorded where the host looks at one.
"""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from diffmask.explaining.embedded import load_embedded
from diffmask.explaining.explain import say
from diffmask.explaining.recorded import Recorded, Take

FULL = ["a fine film , really good", "not a bad film at all"]  # of equal length: nothing is padded
PADDED = ["a fine film , really good", "dull film"]


class OfOperators:
    """A recording that is kept as a graph of operators."""

    def __init__(self, run, own):
        self.own, self.graph = own, make_fx(lambda tensors: run(refilled(own, tensors)))(parts(own))
        self.found = self.graph(parts(own))

    def replay(self):
        for mine, new in zip(self.found, self.graph(parts(self.own)), strict=True):
            mine.copy_(new)

    def pool(self):
        return 0


def parts(batch):
    found = []
    batch._with(lambda tensor: found.append(tensor) or tensor)
    return found


def refilled(batch, tensors):
    left = iter(tensors)
    return batch._with(lambda _: next(left))


@pytest.fixture
def again(monkeypatch):
    """Return what is recorded of a fit, and what it is asked of, by whether models are told that they are recorded."""
    fitted, takes = load_embedded(), []

    def run(batch):
        said = say(fitted, 3, True, batch)
        return [said.scores, said.kept, said.verdict.distances, *said.verdict.original.values()]

    def record(run, own, pool=None):
        made = OfOperators(run, own)
        takes.append(Take(own, made, made.found))
        return takes[-1]

    def make(told):
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: told)
        return fitted, run, Recorded(run, record), takes

    return make


@pytest.mark.parametrize("told", [True, False])
def test_a_batch_with_padding_is_answered_by_a_recording_of_one_without(again, told):
    fitted, run, recording, takes = again(told)
    full, padded = map(fitted.task.collate, (FULL, PADDED))
    assert bool(full.valid.all()) and not bool(padded.valid.all())
    with torch.no_grad(), fitted.model.frozen():
        recording(full), recording(full)  # the second is recorded, unless the model looks whether anything is padding
        expected = [each.clone() for each in run(padded)]
        for one, other in zip(recording(padded), expected, strict=True):
            torch.testing.assert_close(one, other)
    assert len(takes) == told and recording.possible == told
