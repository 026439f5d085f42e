"""What an attribution method is: a call from a question to one score per unit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float
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
    reads: int | None = None  # up to which depth a probe is asked to read; None: up to the site

    @property
    def site_name(self) -> str:
        return self.model.sites.names[self.depth]

    def depth_of_probe(self, own: int | None) -> int:
        """Return up to which depth a probe reads: its own if it has one, or the one it is asked about."""
        asked = self.depth if self.reads is None else self.reads
        return asked if own is None else own

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


class Signed(Method):
    """A method whose scores have a sign, for and against; as any method's they lie between 0 and 1, in that order."""

    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        scores = self.signed(question)
        # A sigmoid would make large scores equal.
        return torch.where(question.batch.valid, 0.5 + scores / (2 + 2 * scores.abs()), 0)

    @abstractmethod
    def signed(self, question: Question) -> Float[Tensor, "batch unit"]:
        """Return the scores themselves: above 0 for units that do more for the prediction than the mean unit."""
