"""Scores drawn at random: what a method must beat to say anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from .method import Method, Question


@dataclass(frozen=True)
class Random(Method):
    """Uniform noise in [0, 1)."""

    seed: Annotated[int, "of the draws"] = 0

    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        valid = question.batch.valid
        noise = torch.rand(valid.shape, generator=torch.Generator().manual_seed(self.seed))
        return noise.to(valid.device) * valid
