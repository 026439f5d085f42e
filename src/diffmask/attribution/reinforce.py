"""Masks by REINFORCE: hard Bernoulli gates for the examples at hand, with the score-function gradient."""

from __future__ import annotations

from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor

from ..gates.score_function import ScoreFunction
from ..objective.objective import ObjectiveConfig
from ..training.free import FreeConfig, search_gates
from .method import Method, Question


@dataclass(frozen=True)
class Reinforce(Method):
    """The rival without a relaxation: unbiased, and noisy for every unit beyond a few."""

    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    search: FreeConfig = field(default_factory=FreeConfig)

    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        q, gate = question, ScoreFunction(len(question.batch)).to(question.batch.valid.device)
        return search_gates(q.model, q.task, q.batch, q.site_name, q.baseline, gate, self.objective, self.search)
