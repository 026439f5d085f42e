"""What a task is: examples, how they become a batch, and which of the model's outputs must be preserved."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from ..types import Batch, Prediction


class Task(ABC):
    """The data, and the prediction an explanation has to keep."""

    train: Sequence[Any]
    validation: Sequence[Any]
    augments: bool = False  # whether `collate` draws at random, so that an example is never the same twice

    @abstractmethod
    def collate(self, examples: Sequence[Any]) -> Batch:
        """Make a batch of examples."""

    @abstractmethod
    def read(self, output: Any, batch: Batch) -> Prediction:
        """Read the prediction to preserve out of what the model returned for `batch`."""

    def lengths(self, examples: Sequence[Any]) -> Sequence[int] | None:
        """Return how long each example is, if a batch of equal lengths costs less; None if it does not matter."""
        return None

    def forget(self) -> None:  # noqa: B027 (most tasks remember nothing)
        """Drop what is remembered of examples that were met, so that a service does not grow with every one."""

    def units(self, examples: Sequence[Any]) -> list[list[str]]:
        """Name the units of each example as a person would, e.g. its tokens."""
        return [[str(i) for i in range(int(row.sum()))] for row in self.collate(examples).valid]
