"""What an attribution method is: a call from a question to one score per unit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from ..models.adapter import Adapter
from ..tasks.task import Task
from ..types import Batch


@dataclass(frozen=True)
class Question:
    """Which units of this batch matter at this site, when a missing unit is replaced by this baseline?"""

    model: Adapter
    task: Task
    batch: Batch
    depth: int
    baseline: Float[Tensor, " hidden"]

    @property
    def site_name(self) -> str:
        return self.model.sites.names[self.depth]


class Method(ABC):
    """Scores are non-negative, larger for what matters more, and 0 on padding."""

    @abstractmethod
    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        """Score every unit of the batch."""
