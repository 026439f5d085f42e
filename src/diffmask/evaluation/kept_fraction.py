"""How much an explanation keeps, without which no figure about its kept units can be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from jaxtyping import Float
from torch import Tensor

from .hits import THRESHOLD
from .metric import Case, Metric


@dataclass(frozen=True)
class KeptFraction(Metric):
    """The share of real units whose score is above a threshold."""

    better = "lower"
    uses_removal = False
    threshold: Annotated[float, "a score above it keeps the unit"] = THRESHOLD

    def __call__(self, case: Case) -> Float[Tensor, " batch"]:
        valid = case.question.batch.valid
        return ((case.scores > self.threshold) & valid).sum(1).double() / valid.sum(1)
