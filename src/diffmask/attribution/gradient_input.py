"""Gradient times input: what the prediction would lose if it were linear and a unit went to its baseline.

Shrikumar et al. (2016), with the difference to a baseline in place of the input; a baseline of zero gives theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError
from ..objective.captum_engine import Engine, captum_gradient_input, check_engine
from ..objective.target import gradient
from ..training.step import Look, look
from .method import Method, Question


@dataclass(frozen=True)
class GradientInput(Method):
    """The size of a unit's gradient · (state − baseline), summed over its positions before the sign is dropped."""

    baseline: Annotated[
        Literal["zero", "question"], "what the state is compared with: nothing, or what replaces a missing unit"
    ] = "question"
    engine: Annotated[Engine, "who does the work: own, or captum for a second opinion"] = "own"

    def __post_init__(self) -> None:
        check_engine(self.engine)
        if self.baseline not in ("zero", "question"):
            raise SettingError(f"no baseline '{self.baseline}' for gradient-input. Known: zero, question")

    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        return self.signed(question).abs()

    def signed(self, question: Question) -> Float[Tensor, "batch unit"]:
        """Return what each unit would add to the target, or take from it."""
        with question.model.frozen():
            seen = look(question.model, question.task, question.batch)
            change = self._change(seen, question).sum(-1, keepdim=True)  # (batch, position, 1)
        return torch.where(question.batch.valid, question.batch.add_up(change).squeeze(-1), 0)

    def _change(self, seen: Look, question: Question) -> Float[Tensor, "batch position hidden"]:
        """Return what each number of the state would take along, were the target linear."""
        state = seen.states[question.site_name]
        start = torch.zeros_like(state) if self.baseline == "zero" else question.path_start(state)
        if self.engine == "captum":
            return captum_gradient_input(seen, question.site_name, start)
        return gradient(seen, question.site_name, state) * (state.float() - start.float())
