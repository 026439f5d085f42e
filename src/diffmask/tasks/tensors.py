"""The task of somebody with tensors in hand: inputs, which units are real, and what the output means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from ..errors import DataError, ModelError
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
    """Examples are rows of tensors; the last rows are held out for validation.

    `output` says what the model returns, or reads the prediction out of it. `units` names each row's real units. With
    `per_unit` the model answers for every unit, and what it answers for padding does not count.

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
        per_unit: bool = False,
    ) -> None:
        self._check(inputs, valid, units)
        held_out = max(1, len(valid) // 10) if validation_count is None else validation_count
        if not 0 < held_out < len(valid):
            raise DataError(
                f"{held_out} of {len(valid)} examples were to be held out for validation: keep one on each side"
            )
        self.inputs, self.valid = dict(inputs), valid
        self.train = range(len(valid) - held_out)
        self.validation = range(len(valid) - held_out, len(valid))
        self._read = output if callable(output) else _reader(output)
        self._units, self._per_unit = units, per_unit

    @staticmethod
    def _check(inputs: Mapping[str, Tensor], valid: Tensor, units: Sequence[Sequence[str]] | None) -> None:
        counts = [(f"input '{name}'", len(rows)) for name, rows in inputs.items()]
        for what, count in [*counts, ("units", len(valid if units is None else units))]:
            if count != len(valid):
                raise DataError(f"{what} has {count} rows and valid has {len(valid)}: give one per example")
        Batch({}, valid)  # refuses what is no mask, and empty examples by their row
        for row, names in enumerate(units or ()):
            if len(names) != int(valid[row].sum()):
                raise DataError(f"row {row} has {int(valid[row].sum())} real units and {len(names)} names for them")

    def collate(self, examples: Sequence[Any]) -> Batch:
        rows = torch.as_tensor(list(examples))
        return Batch({name: tensor[rows] for name, tensor in self.inputs.items()}, self.valid[rows])

    def read(self, output: Any, batch: Batch) -> Prediction:
        prediction = self._read(output)
        if not self._per_unit:
            return prediction
        return {name: replace(head, real=batch.valid) for name, head in prediction.items()}

    def units(self, examples: Sequence[Any]) -> list[list[str]]:
        if self._units is not None:
            return [list(self._units[i]) for i in examples]
        counts = self.valid[torch.as_tensor(list(examples))].sum(1).tolist()  # as `collate` would say, at less cost
        return [[str(i) for i in range(count)] for count in counts]


def _reader(kind: str) -> Callable[[Any], Prediction]:
    head = HEADS.get(kind)

    def read(output: Any) -> Prediction:
        if not isinstance(output, Tensor):
            raise ModelError(
                f"the model returned a {type(output).__name__}, not a tensor: say where the prediction is, e.g. "
                "TensorTask(..., output=lambda out: {'label': Categorical(out.logits)})"
            )
        return {"output": head(output)}

    return read
