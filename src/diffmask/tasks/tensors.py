"""The task of somebody with tensors in hand: inputs, which units are real, and what the output means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from ..errors import DataError
from ..registry import Registry
from ..types import Batch, Prediction
from .task import Task

HEADS = Registry(
    "kind of output",
    {
        "categorical": "diffmask.types:Categorical",
        "bernoulli": "diffmask.types:Bernoulli",
        "value": "diffmask.types:Value",
    },
)


class TensorTask(Task):
    """Examples are rows of tensors; the last rows are held out for validation. `units` names each row's real units.

    >>> task = TensorTask({"x": torch.randint(5, (100, 8))}, torch.ones(100, 8, dtype=torch.bool))
    >>> len(task.train), len(task.validation)
    (90, 10)
    """

    def __init__(
        self,
        inputs: Mapping[str, Tensor],
        valid: Bool[Tensor, "example unit"],
        output: str | Callable[[Any], Prediction] = "categorical",
        validation_count: int | None = None,
        units: Sequence[Sequence[str]] | None = None,
    ) -> None:
        for name, tensor in inputs.items():
            if len(tensor) != len(valid):
                raise DataError(
                    f"input '{name}' has {len(tensor)} rows and `valid` has {len(valid)}: give one row per example"
                )
        held_out = max(1, len(valid) // 10) if validation_count is None else validation_count
        if not 0 < held_out < len(valid):
            raise DataError(
                f"{held_out} of {len(valid)} examples were to be held out for validation: keep one on each side"
            )
        self.inputs, self.valid = dict(inputs), valid
        self.train = range(len(valid) - held_out)
        self.validation = range(len(valid) - held_out, len(valid))
        self._read = output if callable(output) else _reader(output)
        self._units = units

    def collate(self, examples: Sequence[Any]) -> Batch:
        rows = torch.as_tensor(list(examples))
        return Batch({name: tensor[rows] for name, tensor in self.inputs.items()}, self.valid[rows])

    def read(self, output: Any, batch: Batch) -> Prediction:
        return self._read(output)

    def units(self, examples: Sequence[Any]) -> list[list[str]]:
        return super().units(examples) if self._units is None else [list(self._units[i]) for i in examples]


def _reader(kind: str) -> Callable[[Any], Prediction]:
    head = HEADS.get(kind)
    return lambda output: {"output": head(output)}
