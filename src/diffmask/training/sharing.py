"""Share the states of sets that begin alike, where a recurrent model allows it.

That a model does is not believed but tried: on a sample of sets its shared predictions must be its ordinary ones. What
lies so near the margin that rounding decides is run again as it is, so that both ways find the same sets.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from ..errors import DiffMaskError
from ..masking.recurrent import LastState, last_states
from ..masking.sets import unpack
from ..types import Prediction, Value
from .trial import Enumeration, Example, Trial, Tried

log = logging.getLogger(__name__)

SAMPLE = 16  # sets on which sharing is compared with ordinary runs
CLOSE = 1e-3  # largest difference of log-probabilities that passes for rounding
LEAST_SLACK, SAFETY = 1e-5, 10.0  # how far beyond what the sample shows a set counts as near the margin


class Sharing(Trial):
    """Walks the tree of choices of a recurrent model; what lies near the margin is run again as it is."""

    ordered = False

    def __init__(self, example: Example, last: LastState, ordinary: Enumeration, difference: float) -> None:
        self.example, self.last, self.ordinary = example, last, ordinary
        self.slack = max(LEAST_SLACK, SAFETY * difference)
        self.original = example.task.read(last.one.original, last.one.batch)

    def of_size(self, size: int) -> Iterator[Tried]:
        return self.of_sizes(size, size)

    def of_sizes(self, least: int, most: int) -> Iterator[Tried]:
        """Try the sets of some sizes in one walk of the tree, in whatever order."""
        constraint, units = self.example.constraint, self.example.units
        for codes, state in self.last.tree.leaves(least, most):
            copies = self.last.copies(len(codes))
            masked = self.example.task.read(self.last.run(state, copies), copies)
            judged = constraint.judge(spread(self.original, len(codes)), masked, self.slack)
            held = unpack(codes[judged.surely], units)
            near = unpack(codes[judged.maybe & ~judged.surely], units)
            if len(near):
                held = torch.cat([held, near[self.ordinary.hold(near)]])
            yield Tried(len(codes), held)

    def speed(self) -> float:
        half, start, tried = self.example.units // 2, time.perf_counter(), 0
        for one in self.of_size(half):
            tried += one.count
            if time.perf_counter() - start > 0.2:
                break
        return tried / (time.perf_counter() - start)


def spread(prediction: Prediction, count: int) -> Prediction:
    """Let one example's prediction stand for `count` examples."""

    def rows(tensor: Tensor) -> Tensor:
        return tensor.expand(count, *tensor.shape[1:])

    heads = {name: (head, None if head.real is None else rows(head.real)) for name, head in prediction.items()}
    return {name: replace(head, raw=rows(head.raw), real=real) for name, (head, real) in heads.items()}


def trial_of(example: Example, batch_size: int) -> Trial:
    """Choose how to try the sets: shared where that is exact and there are many, else one by one."""
    ordinary = Enumeration(example, batch_size)
    if 2**example.units <= batch_size:
        return ordinary
    views = last_states(example.copies(1))
    for last in views:
        difference = _difference(example, last)
        if difference <= CLOSE:
            return Sharing(example, last, ordinary, difference)
    if views:
        name = type(example.model.model).__name__
        log.info("%s does not answer from the last state of its recurrent layer: sets are run one by one", name)
    return ordinary


def _difference(example: Example, last: LastState) -> float:
    """Return how far shared predictions are from ordinary ones, in log-probability, on a sample of sets."""
    device = example.valid.device
    draw = torch.Generator().manual_seed(0)
    sets = (torch.rand(SAMPLE, example.units, generator=draw) < torch.rand(SAMPLE, 1, generator=draw)).to(device)
    copies = last.copies(len(sets))
    try:
        shared = example.task.read(last.run(last.tree.states(sets), copies), copies)
    except (DiffMaskError, RuntimeError, IndexError):
        return torch.inf  # the model does more with the layer's output than read its last state
    return max(_apart(head, shared[name]) for name, head in Enumeration(example, SAMPLE).predict(sets).items())


def _apart(head: object, other: object) -> float:
    first, second = (h.raw.float() if isinstance(h, Value) else h.log_probs() for h in (head, other))  # type: ignore[attr-defined]
    if first.shape != second.shape:
        return torch.inf
    gap = (first - second).abs()
    return float(torch.where(first == second, 0.0, gap).max())  # both may rule an answer out, with −inf
