"""Precision, recall and F1 of the kept units against the units that matter, or those a person marked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

from jaxtyping import Float
from torch import Tensor

from ..settings import check_choices
from .hits import THRESHOLD, Kept, check_kept, count_hits, marks
from .metric import Case, Marked, Metric

KEPT = "kept units: 'size' takes the highest scores, as many as units are marked; 'threshold' all scores above it"


@dataclass(frozen=True)
class SetOverlap(Metric):
    """How well the kept units match the marked ones; picked by size, precision, recall and F1 are the same."""

    better = "higher"
    uses_removal = False
    figure: Annotated[Literal["precision", "recall", "f1"], "the share of kept units, of marked ones, or both"] = "f1"
    against: Annotated[Marked, "who marked the units"] = "truth"
    kept: Annotated[Kept, KEPT] = "size"
    threshold: Annotated[float, "with kept = threshold: a score above it keeps the unit"] = THRESHOLD

    def __post_init__(self) -> None:
        check_kept(self.kept)
        check_choices(self, "overlap")

    @property
    def needs(self) -> Marked:
        return self.against

    @property
    def ranks_only(self) -> bool:
        return self.kept == "size"

    def __call__(self, case: Case) -> Float[Tensor, " batch"]:
        valid = case.question.batch.valid
        marked = marks(case.truth if self.against == "truth" else case.rationale, valid)
        hits = count_hits(case.scores, marked, valid, self.kept, self.threshold)
        return {"precision": hits.precision, "recall": hits.recall, "f1": hits.f1}[self.figure]()


Precision, Recall, F1 = (partial(SetOverlap, figure) for figure in ("precision", "recall", "f1"))
RationaleF1 = partial(SetOverlap, "f1", "rationale")
