"""A fitted probe's own scores: the probability that a unit is kept, in one forward pass.

In float64: metrics need a probability, to cut at a half or to share out, and in float32 the surest units would tie.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from ..gates.probe import Probe
from ..training.step import look
from .method import Method, Question


@dataclass(frozen=True)
class ProbeScores(Method):
    """DiffMask: what the probe, once fitted, says of any input."""

    probe: Probe
    depth: Annotated[int | None, "how far up it reads; unset, the depth that is asked about"] = None

    @torch.no_grad()
    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        with question.model.frozen():
            seen = look(question.model, question.task, question.batch)
        depth = question.depth_of_probe(self.depth)
        return self.probe(seen.reading, depth).exact_keep_probability() * question.batch.valid
