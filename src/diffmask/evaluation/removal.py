"""What becomes of a unit that is taken away, which every figure of faithfulness depends on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from ..attribution.method import Question
from ..errors import DataError, SettingError
from ..masking.mask import run_copies
from ..training.step import Look, look
from ..types import Prediction, split_prediction


class Removal(ABC):
    """Predicts again from what is kept."""

    name: ClassVar[str]

    def describe(self, question: Question) -> str:
        """Say what stands in for a removed unit, for whoever reads a figure."""
        return self.name

    @abstractmethod
    def __call__(self, question: Question, keeps: Float[Tensor, "copy batch unit"]) -> list[Prediction]:
        """Predict with each of several masks of the same batch; a mask is 1 where a unit is kept."""


def check_rows(name: str, rows: int) -> None:
    """Refuse a pass without rows."""
    if rows < 1:
        raise SettingError(f"rows of removal '{name}' must be at least 1, got {rows}: it bounds one pass")


def check_whole(name: str, keeps: Float[Tensor, "copy batch unit"]) -> None:
    """Refuse a mask that keeps a part of a unit, where a unit is there or is not."""
    if not bool(((keeps == 0) | (keeps == 1)).all()):
        raise DataError(
            f"removal '{name}' takes a unit away or leaves it, and this mask holds shares of units: round it, or use "
            "removal 'baseline'"
        )


def parts(keeps: Float[Tensor, "copy batch unit"], rows: int) -> list[Float[Tensor, "part batch unit"]]:
    """Cut masks into as many as fit in one pass, at least one at a time."""
    return list(torch.split(keeps, max(1, rows // keeps.shape[1])))


@torch.no_grad()
def run_at_site(
    question: Question,
    keeps: Float[Tensor, "copy batch unit"],
    rows: int,
    stand_in: Callable[[Look], Float[Tensor, " *position hidden"] | None],
) -> list[Prediction]:
    """Predict with each mask, where a removed unit's state is replaced at the question's site."""
    with question.model.frozen():
        seen = look(question.model, question.task, question.batch)
        baseline = stand_in(seen)
        return [found for part in parts(keeps, rows) for found in _run(seen, question.site_name, part, baseline)]


def _run(
    seen: Look, site_name: str, keeps: Float[Tensor, "copy batch unit"], baseline: Tensor | None
) -> list[Prediction]:
    copies = seen.batch.repeat(len(keeps))
    output = run_copies(seen.model, copies, seen.states, site_name, keeps, baseline)
    return split_prediction(seen.task.read(output, copies), len(keeps))
