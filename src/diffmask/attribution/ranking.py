"""The order a fit has learned: which units come first when only so many may be kept, in one forward pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from ..gates.probe import Probe
from ..training.step import look
from .method import Method, Question, squashed


@dataclass(frozen=True)
class RankScores(Method):
    """What the rankers of a fit by the recipe `ranking` say, from 0 (kept last) to 1 (kept first).

    >>> compare(fitted, data, {"ranking": RankScores(ranked.probe)}, metrics)      # doctest: +SKIP
    """

    probe: Probe
    depth: Annotated[int | None, "how far up it reads; unset, the depth that is asked about"] = None

    @torch.no_grad()
    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        return squashed(self.signed(question), question.batch.valid)

    @torch.no_grad()
    def signed(self, question: Question) -> Float[Tensor, "batch unit"]:
        """Return the scores themselves: above 0 for units that do more for the prediction than the mean unit."""
        with question.model.frozen():
            seen = look(question.model, question.task, question.batch)
        depth = question.depth if self.depth is None else self.depth
        return torch.where(question.batch.valid, self.probe.rank(seen.reading, depth), 0)
