"""Try every set of one example's units by increasing size, and say which of them keep the prediction.

Any model runs the sets as they come, in large batches; what a recurrent one can share is in training/sharing.py.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from math import comb

import torch
from jaxtyping import Bool
from torch import Tensor

from ..masking.copies import Copies
from ..masking.sets import sets_of_size
from ..models.adapter import Adapter
from ..objective.constraint import Constraint
from ..tasks.task import Task
from ..types import Batch, Prediction

FIRST_BATCH = 64  # sets: most searches of short examples end with few, and a large model should not run many in vain


@dataclass(frozen=True)
class Example:
    """One example of a batch, what is replaced in it where, and what has to be kept."""

    model: Adapter
    task: Task
    batch: Batch
    row: int
    site_name: str
    baseline: Tensor | None
    constraint: Constraint

    @property
    def valid(self) -> Bool[Tensor, " unit"]:
        return self.batch.valid[self.row]

    @property
    def units(self) -> int:
        return int(self.valid.sum())

    def copies(self, count: int) -> Copies:
        return Copies(self.model, self.batch, self.row, self.site_name, self.baseline, count)


@dataclass(frozen=True)
class Tried:
    """Some sets that were tried: how many, and those that hold."""

    count: int
    held: Bool[Tensor, "set real"]


class Trial(ABC):
    """Tries sets of the real units of one example."""

    ordered: bool  # whether sets of one size come in order, so that the first that holds is the first of all

    @abstractmethod
    def of_size(self, size: int) -> Iterator[Tried]:
        """Try all sets of `size` units, some at a time."""

    @abstractmethod
    def speed(self) -> float:
        """Return how many sets are tried in a second, measured on one batch."""


class Enumeration(Trial):
    """Runs each set as any masked run: from its site on, whatever other sets have in common with it."""

    ordered = True

    def __init__(self, example: Example, batch_size: int) -> None:
        self.example, self.batch_size = example, batch_size
        self._prepare(min(FIRST_BATCH, batch_size))

    def of_size(self, size: int) -> Iterator[Tried]:
        total, first, room = comb(self.example.units, size), 0, self.copies.count
        while first < total:
            count = min(room, total - first)
            sets = sets_of_size(self.example.units, size, first, count, self.example.valid.device)
            yield Tried(count, sets[self.hold(sets)])
            first, room = first + count, min(2 * room, max(self.batch_size, self.copies.count))

    def hold(self, sets: Bool[Tensor, "set real"]) -> Bool[Tensor, " set"]:
        """Say which sets keep the prediction."""
        if len(sets) > self.copies.count:
            self._prepare(min(len(sets), self.batch_size))
        parts = [sets[first : first + self.copies.count] for first in range(0, len(sets), self.copies.count)]
        return torch.cat([self._holds(self.predict(part), len(part)) for part in parts])

    def predict(self, sets: Bool[Tensor, "set real"]) -> Prediction:
        """Predict from up to a batch of sets, and from the example as it is for the copies without one."""
        whole = torch.zeros(len(sets), len(self.example.valid), dtype=torch.bool, device=sets.device)
        whole[:, self.example.valid] = sets
        return self.example.task.read(self.copies.run(whole), self.copies.batch)

    def speed(self) -> float:
        units, half = self.example.units, self.example.units // 2
        sets = sets_of_size(units, half, 0, min(self.copies.count, comb(units, half)), self.example.valid.device)
        self.hold(sets)
        start = time.perf_counter()
        self.hold(sets).tolist()
        return len(sets) / (time.perf_counter() - start)

    def _prepare(self, count: int) -> None:
        self.copies = self.example.copies(count)
        self.original = self.example.task.read(self.copies.original, self.copies.batch)

    def _holds(self, masked: Prediction, count: int) -> Bool[Tensor, " set"]:
        return self.example.constraint.holds(self.original, masked)[:count]
