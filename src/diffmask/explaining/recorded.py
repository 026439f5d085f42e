"""Record what is computed for a batch on a GPU, once per shape of batch, and replay it.

A small model keeps a GPU waiting: to launch a kernel takes the host longer than to run it takes the device. A recording
(a CUDA graph) launches all of them at once. What it has found is overwritten when it is replayed, so fetch it first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

from ..models.adapter import Adapter
from ..training.fit import Fit
from ..types import Batch

log = logging.getLogger(__name__)

Found = TypeVar("Found")
MOST = 8  # functions whose recordings a fit keeps


@runtime_checkable
class Graph(Protocol):
    """Something recorded."""

    def replay(self) -> None: ...

    def pool(self) -> Any: ...


@dataclass(frozen=True)
class Take(Generic[Found]):
    """One recording, with the batch it reads and what it has found there."""

    batch: Batch
    graph: Graph
    found: Found

    def __call__(self, batch: Batch) -> Found:
        """Replay it on another batch of the same shape."""
        for own, given in zip(self.batch.tensors, batch.tensors, strict=True):
            own.copy_(given, non_blocking=True)
        self.graph.replay()
        return self.found


def record_graph(run: Callable[[Batch], Found], own: Batch, pool: Any = None) -> Take[Found]:
    """Record a run on a batch of its own, in the memory of another recording if given; nothing is computed yet."""
    graph, draws = torch.cuda.CUDAGraph(), torch.cuda.default_generators[own.valid.device.index]
    before = draws.clone_state()
    try:
        with torch.cuda.graph(graph, pool=pool):
            found = run(own)
    except RuntimeError:
        draws.graphsafe_set_state(before)  # PyTorch would go on as if it were still recording, and draw nothing
        raise
    return Take(own, graph, found)


class Recorded(Generic[Found]):
    """A function of a batch that is recorded when a shape of batch comes a second time; the first one warms it up.

    A model that looks at its own numbers on the way, and so cannot be recorded, goes on as it is. All recordings share
    the memory of the first: what one has found is fetched before another is replayed.
    """

    def __init__(self, run: Callable[[Batch], Found], record: Callable[..., Take[Found]] = record_graph) -> None:
        self.run, self.record = run, record
        self.takes: dict[Hashable, Take[Found] | None] = {}
        self.possible, self.pool = True, None

    def __call__(self, batch: Batch) -> Found:
        shape = shape_of(batch)
        if self.possible and shape in self.takes and self.takes[shape] is None:
            self.takes[shape] = self._try(batch)
        take = self.takes.setdefault(shape, None)
        return self.run(batch) if take is None else take(batch)

    def _try(self, batch: Batch) -> Take[Found] | None:
        try:
            take = self.record(self.run, batch.clone(), self.pool)  # which replays write into
            self.pool = self.pool or take.graph.pool()
            return take
        except RuntimeError as error:  # as a rule: the host asked for a number while the device was only recording
            self.possible = False
            log.info("the model cannot be recorded and runs as it is: %s", str(error).split("\n")[0])
            return None


def shape_of(batch: Batch) -> Hashable:
    """Return what a recording depends on beside the numbers in its tensors."""
    shapes = tuple((tuple(tensor.shape), tensor.dtype) for tensor in batch.tensors)
    others = tuple((name, repr(value)) for name, value in batch.inputs.items() if not isinstance(value, Tensor))
    return shapes, tuple(batch.inputs), others, batch.place is None, batch.ask is None


def recorded(fitted: Fit, about: Hashable, run: Callable[[Batch], Found]) -> Callable[[Batch], Found]:
    """Return `run`, recorded where the model is on one GPU; its recordings are kept for the next call.

    They read the weights where these are now: once weights have moved, or a probe has changed, they are made anew.
    """
    model = fitted.model
    if model.device.type != "cuda" or model.spread:
        return run
    key, now = (about, _precision(model)), _weights(fitted)
    kept = fitted.recordings.pop(key, None)
    made = kept if kept is not None and kept[0] == now else (now, Recorded(run))
    fitted.recordings[key] = made  # the last one used stands last
    while len(fitted.recordings) > MOST:
        del fitted.recordings[next(iter(fitted.recordings))]
    found: Callable[[Batch], Found] = made[1]
    return found


def _weights(fitted: Fit) -> Hashable:
    """Return what changes when weights are elsewhere, or the probe's are others."""
    model = fitted.model.model
    places = tuple(tensor.data_ptr() for tensor in (*model.parameters(), *model.buffers()))
    probe = [*fitted.probe.parameters(), *fitted.probe.buffers()]
    counted = [-1 if tensor.is_inference() else tensor._version for tensor in probe]
    return places, tuple((tensor.data_ptr(), count) for tensor, count in zip(probe, counted, strict=True))


def _precision(model: Adapter) -> tuple[Any, ...]:
    cast = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    return model.precision, *cast, *_rounding()


def _rounding() -> tuple[Any, ...]:
    """Say how products round float32, by whichever of PyTorch's two ways the user has set it: to mix them raises."""
    try:
        return torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    except RuntimeError:
        cudnn: Any = torch.backends.cudnn
        products: Any = torch.backends.cuda.matmul
        return products.fp32_precision, cudnn.conv.fp32_precision, cudnn.rnn.fp32_precision
