"""Keep what was computed about a model for as long as the model stays the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from torch import nn

T = TypeVar("T")

MOST = 16  # results kept for one model: as many as a study asks about at a time


class Remembered(Generic[T]):
    """Answers from memory if the weights and all that was given are those of an earlier call."""

    def __init__(self) -> None:
        self._found: WeakKeyDictionary[nn.Module, dict[Any, tuple[Any, T]]] = WeakKeyDictionary()

    def get(self, model: nn.Module, given: tuple[Any, ...], make: Callable[[], T]) -> T:
        """Return what `make` makes, or made before from the same `given`, which is held so that it stays the same."""
        key = (_version(model), *(thing if isinstance(thing, int | str) else id(thing) for thing in given))
        found = self._found.setdefault(model, {})
        if key not in found:
            found[key] = (given, make())
            for old in list(found)[:-MOST]:
                del found[old]
        return found[key][1]


def _version(model: nn.Module) -> int:
    """Count the changes made to the weights in place, as training and loading make them."""
    return sum(0 if parameter.is_inference() else parameter._version for parameter in model.parameters())
