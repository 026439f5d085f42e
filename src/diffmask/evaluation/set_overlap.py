"""Precision, recall and F1 of the kept units against the units that are known to matter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from jaxtyping import Float
from torch import Tensor

from .hits import THRESHOLD, Hits, Kept, check_kept, count_hits, marks
from .metric import Case, Metric

KEPT = "kept units: 'size' takes the highest scores, as many as units matter; 'threshold' all scores above it"


@dataclass(frozen=True)
class Precision(Metric):
    """The share of kept units that matter; picked by size, it equals recall and F1."""

    better = "higher"
    uses_removal = False
    kept: Annotated[Kept, KEPT] = "size"
    threshold: Annotated[float, "with kept = threshold: a score above it keeps the unit"] = THRESHOLD

    def __post_init__(self) -> None:
        check_kept(self.kept)

    @property
    def ranks_only(self) -> bool:
        return self.kept == "size"

    def __call__(self, case: Case) -> Float[Tensor, " batch"]:
        return _hits(case, self.kept, self.threshold).precision()


@dataclass(frozen=True)
class Recall(Metric):
    """The share of units that matter which are kept."""

    better = "higher"
    uses_removal = False
    kept: Annotated[Kept, KEPT] = "size"
    threshold: Annotated[float, "with kept = threshold: a score above it keeps the unit"] = THRESHOLD

    def __post_init__(self) -> None:
        check_kept(self.kept)

    @property
    def ranks_only(self) -> bool:
        return self.kept == "size"

    def __call__(self, case: Case) -> Float[Tensor, " batch"]:
        return _hits(case, self.kept, self.threshold).recall()


@dataclass(frozen=True)
class F1(Metric):
    """The harmonic mean of precision and recall."""

    better = "higher"
    uses_removal = False
    kept: Annotated[Kept, KEPT] = "size"
    threshold: Annotated[float, "with kept = threshold: a score above it keeps the unit"] = THRESHOLD

    def __post_init__(self) -> None:
        check_kept(self.kept)

    @property
    def ranks_only(self) -> bool:
        return self.kept == "size"

    def __call__(self, case: Case) -> Float[Tensor, " batch"]:
        return _hits(case, self.kept, self.threshold).f1()


def _hits(case: Case, kept: Kept, threshold: float) -> Hits:
    valid = case.question.batch.valid
    return count_hits(case.scores, marks(case.truth, valid), valid, kept, threshold)
