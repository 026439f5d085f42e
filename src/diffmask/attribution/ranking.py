"""The order a fit has learned: which units come first when only so many may be kept, in one forward pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from ..gates.probe import Probe
from ..training.step import Look, look
from .method import Question, Signed


@dataclass(frozen=True)
class RankScores(Signed):
    """What the rankers of a fit by the recipe `ranking` say, from 0 (kept last) to 1 (kept first).

    >>> compare(fitted, data, {"ranking": RankScores(ranked.probe)}, metrics)      # doctest: +SKIP
    """

    probe: Probe
    depth: Annotated[int | None, "how far up it reads; unset, the depth that is asked about"] = None

    @torch.no_grad()
    def signed(self, question: Question) -> Float[Tensor, "batch unit"]:
        with question.model.frozen():
            seen = look(question.model, question.task, question.batch)
        return say_rank(self.probe, seen, question, self.depth)


def say_rank(probe: Probe, seen: Look, question: Question, depth: int | None = None) -> Float[Tensor, "batch unit"]:
    """Return what the rankers of a probe say at a depth, or at the one that is asked about; 0 on padding."""
    found = probe.rank(seen.reading, question.depth_of_probe(depth))
    return torch.where(seen.batch.valid, found, 0)
