"""DiffMask without amortisation: free gates for the examples at hand, each under a constraint of its own."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError
from ..gates.hard_concrete import HardConcrete
from ..objective.constraint import Constraint
from ..objective.objective import ObjectiveConfig
from ..settings import check_choices
from ..training.free import FreeConfig, search_gates
from ..training.polish import Polish
from ..training.step import look
from .method import Method, Question


@dataclass(frozen=True)
class PerExample(Method):
    """The probability of each free gate being open, after a search on this batch alone.

    Of several restarts, each example keeps the one whose thresholded mask is the smallest that holds. Polished, scores
    are 1 for the units of a small set that was measured to keep the prediction, and 0 elsewhere: more masked runs.
    """

    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    search: FreeConfig = field(default_factory=FreeConfig)
    restarts: Annotated[int, "searches with different noise, each as long as one"] = 1
    polish: Annotated[
        Literal["none", "drop", "exchange"], "drop what is not missed; exchange two units for one (training/polish.py)"
    ] = "none"
    decision: Annotated[bool, "whether a mask that holds must keep the decision too"] = True

    def __post_init__(self) -> None:
        check_choices(self, "per-example")
        if self.restarts < 1:
            raise SettingError(f"restarts must be at least 1, got {self.restarts}: one search is the method")

    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        scores = [self._search(question, number) for number in range(self.restarts)]
        return scores[0] if self.restarts == 1 and self.polish == "none" else self._choose(question, scores)

    def _search(self, question: Question, number: int) -> Float[Tensor, "batch unit"]:
        # Searches of their own for each seed: shared ones would make seeds agree that do not.
        q, how = question, replace(self.search, seed=self.search.seed * self.restarts + number)
        return search_gates(q.model, q.task, q.batch, q.site_name, q.baseline, HardConcrete(), self.objective, how)

    @torch.no_grad()
    def _choose(self, question: Question, scores: list[Tensor]) -> Float[Tensor, "batch unit"]:
        constraint = Constraint(self.objective.margin, self.objective.divergence, self.decision)
        with question.model.frozen():
            seen = look(question.model, question.task, question.batch)
            polish = Polish(seen, question.site_name, question.baseline, constraint)
            if self.polish == "none":
                return polish.smallest([one > 0.5 for one in scores], scores)
            kept = [polish(one > 0.5, one, exchange=self.polish == "exchange").float() for one in scores]
            return polish.smallest([one > 0.5 for one in kept], kept)
