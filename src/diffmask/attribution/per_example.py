"""DiffMask without amortisation: free gates for the examples at hand, each under a constraint of its own."""

from __future__ import annotations

from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor

from ..gates.hard_concrete import HardConcrete
from ..objective.objective import ObjectiveConfig
from ..training.free import FreeConfig, search_gates
from .method import Method, Question


@dataclass(frozen=True)
class PerExample(Method):
    """The probability of each free gate being open, after a search on this batch alone."""

    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    search: FreeConfig = field(default_factory=FreeConfig)

    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        q, gate = question, HardConcrete()
        return search_gates(q.model, q.task, q.batch, q.site_name, q.baseline, gate, self.objective, self.search)
