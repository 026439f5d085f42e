"""Scores drawn at random: what a method must beat to say anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from jaxtyping import Float
from torch import Tensor

from ..training.draws import unit_noise
from .method import Method, Question


@dataclass(frozen=True)
class Random(Method):
    """Uniform noise in [0, 1), drawn for each example from the seed and what stands in it.

    So an example has the same scores in any batch, under any padding, and different ones from its mates.
    """

    seed: Annotated[int, "of the draws"] = 0

    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        return unit_noise(question.batch, seed=self.seed)[0]
