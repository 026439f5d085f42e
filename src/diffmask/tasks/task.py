"""What a task is: examples, how they become a batch, and which of the model's outputs must be preserved."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..errors import DataError
from ..types import Batch, Prediction


def check_several(examples: Any) -> None:
    """Refuse a single text, which would be taken for a list of its letters."""
    if isinstance(examples, str | bytes):
        raise DataError("examples must be a list, got one text: pass [text]")


def check_examples(examples: Any) -> None:
    """Refuse what is no list of examples."""
    check_several(examples)
    if not isinstance(examples, Sequence):
        raise DataError(f"examples must be a list, got {type(examples).__name__}: pass {_as_list(examples)}")


def check_numbered(examples: Any) -> None:
    """Refuse what does not hold its examples under the numbers from 0 on, as lists and data sets do."""
    check_several(examples)
    listed = hasattr(examples, "__len__") and hasattr(examples, "__getitem__") and not isinstance(examples, Mapping)
    if not listed or hasattr(examples, "iloc"):  # pandas looks numbers up in an index
        raise DataError(f"examples must be a list, got {type(examples).__name__}: pass {_as_list(examples)}")


def _as_list(examples: Any) -> str:
    """Say how to make a list of something."""
    if isinstance(examples, Mapping):
        return "[example], or one column, such as list(examples['text'])"
    if hasattr(examples, "columns"):
        return "one column, such as list(examples['text'])"
    return "list(examples)" if hasattr(examples, "__iter__") else "[example]"


class Task(ABC):
    """The data, and the prediction an explanation has to keep."""

    train: Sequence[Any]
    validation: Sequence[Any]
    labelled: bool = False  # whether the model answers with labels, which its author may have named
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

    def limit(self, units: int) -> None:  # noqa: B027 (most tasks have nothing to cut)
        """Take no more of an example than a model has positions for."""

    def cut(self, example: Any) -> int:
        """Return how many tokens of an example the model does not take."""
        return 0

    def forget(self) -> None:  # noqa: B027 (most tasks remember nothing)
        """Drop what is remembered of examples that were met, so that a service does not grow with every one."""

    def names(self, indices: Collection[int]) -> Mapping[str, str] | None:
        """Name some of the indices the model answers with, where they are no labels but e.g. tokens."""
        return None

    def read_out(self, example: Any, decided: Mapping[str, Any]) -> str | None:
        """Say what was decided in the words of the example, where numbers mean nothing beyond it."""
        return None

    def units(self, examples: Sequence[Any]) -> list[list[str]]:
        """Name the units of each example as a person would, e.g. its tokens."""
        return [[str(i) for i in range(int(row.sum()))] for row in self.collate(examples).valid]
