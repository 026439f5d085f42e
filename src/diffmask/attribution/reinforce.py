"""Masks by REINFORCE: hard Bernoulli gates for the examples at hand, with the score-function gradient."""

from __future__ import annotations

from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor

from ..gates.free import FreeGates
from ..gates.score_function import ScoreFunction
from ..objective.objective import ObjectiveConfig
from ..training.free import FreeConfig, fit_free
from .method import Method, Question


@dataclass(frozen=True)
class Reinforce(Method):
    """The rival without a relaxation: unbiased, and noisy for every unit beyond a few."""

    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    search: FreeConfig = field(default_factory=FreeConfig)

    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        q = question
        gate = ScoreFunction(len(q.batch)).to(q.batch.valid.device)
        gates = FreeGates(q.batch.valid.shape, q.site_name, q.baseline, gate, self.search.start_open)
        fit_free(q.model, q.task, q.batch, gates, self.objective, self.search)
        return gates({}, 0).keep_probability().detach() * q.batch.valid
