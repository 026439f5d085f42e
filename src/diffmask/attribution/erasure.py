"""Exact erasure search: the smallest set of units that keeps the prediction, found by trying sets by increasing size.

The minimum is exact and hindsighted: it keeps whatever happens to suffice for this one prediction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Annotated

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..errors import SettingError
from ..objective.divergence import agreement, divergence
from ..training.step import look
from ..types import Batch
from .method import Method, Question


@dataclass(frozen=True)
class ExactErasure(Method):
    """1 for the units of the first smallest set that keeps decision and margin, 0 elsewhere."""

    margin: Annotated[
        float, "largest divergence of a set that keeps the prediction; inf asks for the decision alone"
    ] = 0.1
    measure: Annotated[str, "of the divergence"] = "kl"
    smallest: Annotated[int, "size of the first sets tried; an attribution needs at least one unit"] = 1
    most_units: Annotated[int, "longest example searched: the sets double with every unit"] = 20
    batch_size: Annotated[int, "sets tried in one forward pass"] = 2048

    @torch.no_grad()
    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        longest = int(question.batch.valid.sum(1).max())
        if longest > self.most_units:
            raise SettingError(
                f"exact erasure would try up to 2^{longest} sets for an example of {longest} units; it stops at "
                f"{self.most_units}. Raise most_units, or use method 'per-example'"
            )
        with question.model.frozen():
            found = [self._search(question, row) for row in range(len(question.batch))]
        return torch.stack(found).float()

    def _search(self, question: Question, row: int) -> Bool[Tensor, " unit"]:
        """Try every set of one size before any of the next; all real units together always keep the prediction."""
        valid = question.batch.valid[row]
        for size in range(self.smallest, int(valid.sum())):
            for sets in self._sets(valid, size):
                holds = self._holds(question, row, sets)
                if bool(holds.any()):
                    return sets[int(holds.int().argmax())]
        return valid

    def _sets(self, valid: Bool[Tensor, " unit"], size: int) -> Iterator[Bool[Tensor, "set unit"]]:
        chosen = combinations(valid.nonzero().flatten().tolist(), size)
        while chunk := list(islice(chosen, self.batch_size)):
            rows = torch.zeros(len(chunk), len(valid), dtype=torch.bool, device=valid.device)
            yield rows.scatter(1, torch.tensor(chunk, device=valid.device), True)

    def _holds(self, question: Question, row: int, sets: Bool[Tensor, "set unit"]) -> Bool[Tensor, " set"]:
        seen = look(question.model, question.task, repeat_example(question.batch, row, len(sets)))
        masked = seen.masked_at(question.site_name, sets, question.baseline)
        close = divergence(seen.original, masked, self.measure) <= self.margin
        return close & (agreement(seen.original, masked) == 1)


def repeat_example(batch: Batch, row: int, times: int) -> Batch:
    """Make a batch of one example many times over."""

    def alone(tensor: Tensor) -> Tensor:
        return tensor[row : row + 1] if tensor.dim() and len(tensor) == len(batch) else tensor

    inputs = {name: alone(value) if isinstance(value, Tensor) else value for name, value in batch.inputs.items()}
    others = (None if tensor is None else alone(tensor) for tensor in (batch.place, batch.ask))
    return Batch(inputs, alone(batch.valid), *others).repeat(times)
