"""A removed unit becomes what the question says it does: its baseline, or out of everyone's sight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from jaxtyping import Float
from torch import Tensor

from ..attribution.method import Question
from ..types import Prediction
from .removal import Removal, check_rows, run_at_site


@dataclass(frozen=True)
class ToBaseline(Removal):
    """The baseline of the question at its site; without one, a knock-out of all attention."""

    name = "baseline"
    rows: Annotated[int, "rows in one pass, one per mask and example; never fewer than the batch has"] = 256

    def __post_init__(self) -> None:
        check_rows(self.name, self.rows)

    def describe(self, question: Question) -> str:
        return "knockout" if question.baseline is None else f"baseline at {question.site_name}"

    def __call__(self, question: Question, keeps: Float[Tensor, "copy batch unit"]) -> list[Prediction]:
        baseline = None if question.baseline is None else question.baseline.detach()
        return run_at_site(question, keeps, self.rows, lambda seen: baseline)
