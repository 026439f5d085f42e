"""What an attribution method is: a call from a question to one score per unit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..masking.mask import at_positions
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
    baseline: Float[Tensor, " *position hidden"] | None  # None: knocked out of all attention

    @property
    def site_name(self) -> str:
        return self.model.sites.names[self.depth]

    def path_start(self, state: Float[Tensor, "batch position hidden"]) -> Float[Tensor, "batch position hidden"]:
        """Return where a path of states starts: at the baseline, or at zero where nothing stands in."""
        if self.baseline is None:
            return torch.zeros_like(state)
        return at_positions(self.baseline.detach(), self.batch).to(state.dtype).expand_as(state)


class Method(ABC):
    """Scores are non-negative, larger for what matters more, and 0 on padding."""

    @abstractmethod
    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        """Score every unit of the batch."""


def squashed(scores: Float[Tensor, "batch unit"], valid: Bool[Tensor, "batch unit"]) -> Float[Tensor, "batch unit"]:
    """Put scores of any sign between 0 and 1, in the same order; a sigmoid would make large ones equal.

    >>> squashed(torch.tensor([[-1.0, 0.0, 1.0]]), torch.ones(1, 3, dtype=torch.bool))
    tensor([[0.2500, 0.5000, 0.7500]])
    """
    return torch.where(valid, 0.5 + scores / (2 + 2 * scores.abs()), 0)
