"""Leave one out: how far the prediction moves when one unit goes to the baseline and all others stay.

Zeiler and Fergus (2014), Li, Monroe and Jurafsky (2016). Where two units say the same, neither is missed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import SettingError
from ..masking.mask import run_copies
from ..objective.divergence import divergence
from ..objective.target import target
from ..training.step import Look, look
from ..types import Prediction, split_prediction
from .method import Method, Question

Compare = Callable[[Prediction, Prediction], Tensor]  # the original prediction with a masked one, example by example


@dataclass(frozen=True)
class LeaveOneOut(Method):
    """The divergence from the original prediction without the unit."""

    measure: Annotated[str, "of the divergence"] = "kl"
    batch_size: Annotated[int, "rows in one pass, one per unit and example; never fewer than the batch has"] = 256

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise SettingError(f"batch_size of leave-one-out must be at least 1, got {self.batch_size}")

    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        found = self._each(question, partial(divergence, measure=self.measure))
        return found.clamp_min(0)  # rounding takes a divergence of nothing just below 0

    def signed(self, question: Question) -> Float[Tensor, "batch unit"]:
        """Return how much less probable what was decided is without each unit, in nats; of a value, how much less."""
        return self._each(question, lambda before, masked: target(before, before) - target(masked, before))

    @torch.no_grad()
    def _each(self, question: Question, compare: Compare) -> Float[Tensor, "batch unit"]:
        """Compare the original prediction with that without each unit."""
        valid = question.batch.valid
        units = valid.any(0).nonzero().flatten()  # a column of padding alone is nobody's unit
        with question.model.frozen():
            seen = look(question.model, question.task, question.batch)
            size = max(1, self.batch_size // len(valid))
            parts = [units[start : start + size] for start in range(0, len(units), size)]
            found = torch.cat([_without(seen, question, part, compare) for part in parts])
        scores = torch.zeros(valid.shape, device=valid.device).index_copy(1, units, found.T)
        return torch.where(valid, scores, 0)


def _without(
    seen: Look, question: Question, units: Int[Tensor, " copy"], compare: Compare
) -> Float[Tensor, "copy batch"]:
    """Leave out each of some units, in all examples at once, and compare."""
    keeps = torch.ones(len(units), *seen.batch.valid.shape, device=units.device)
    keeps[torch.arange(len(units), device=units.device), :, units] = 0
    copies = seen.batch.repeat(len(keeps))
    output = run_copies(seen.model, copies, seen.states, question.site_name, keeps, question.baseline)
    masked = split_prediction(seen.task.read(output, copies), len(units))
    return torch.stack([compare(seen.original, prediction) for prediction in masked])
