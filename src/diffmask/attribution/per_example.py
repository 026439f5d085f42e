"""DiffMask without amortisation: free gates for the examples at hand, each under a constraint of its own."""

from __future__ import annotations

from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor

from ..gates.free import FreeGates
from ..gates.hard_concrete import HardConcrete
from ..objective.objective import ObjectiveConfig
from ..training.free import FreeConfig, fit_free
from .method import Method, Question


@dataclass(frozen=True)
class PerExample(Method):
    """The probability of each free gate being open, after a search on this batch alone."""

    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    search: FreeConfig = field(default_factory=FreeConfig)

    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        q = question
        gates = FreeGates(q.batch.valid.shape, q.site_name, q.baseline, HardConcrete(), self.search.start_open)
        fit_free(q.model, q.task, q.batch, gates, self.objective, self.search)
        return gates({}, 0).keep_probability().detach() * q.batch.valid
