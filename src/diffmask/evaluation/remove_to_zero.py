"""A removed unit becomes a state of zeros, which few models have ever seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from jaxtyping import Float
from torch import Tensor

from ..attribution.method import Question
from ..training.step import Look
from ..types import Prediction
from .removal import Removal, check_rows, run_at_site


@dataclass(frozen=True)
class ToZero(Removal):
    """Zeros at the question's site."""

    name = "zero"
    rows: Annotated[int, "rows in one pass, one per mask and example; never fewer than the batch has"] = 256

    def __post_init__(self) -> None:
        check_rows(self.name, self.rows)

    def describe(self, question: Question) -> str:
        return f"zero at {question.site_name}"

    def __call__(self, question: Question, keeps: Float[Tensor, "copy batch unit"]) -> list[Prediction]:
        def zeros(seen: Look) -> Float[Tensor, " hidden"]:
            state = seen.states[question.site_name]
            return state.new_zeros(state.shape[-1])

        return run_at_site(question, keeps, self.rows, zeros)
