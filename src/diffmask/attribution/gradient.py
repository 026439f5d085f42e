"""The gradient's size: how much the prediction would move, at first, if a unit's state moved in the worst direction.

After Simonyan, Vedaldi and Zisserman (2014), who take the largest entry where this takes the norm. It asks what the
model is sensitive to, and knows of no baseline.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..objective.target import gradient
from ..training.step import look
from .method import Method, Question


@dataclass(frozen=True)
class GradientNorm(Method):
    """The L2 norm of the target's gradient with respect to a unit's state, all its positions taken together."""

    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        with question.model.frozen():
            seen = look(question.model, question.task, question.batch)
            slope = gradient(seen, question.site_name, seen.states[question.site_name])
        # Squares, not the vectors: opposite slopes at two positions of a unit are no reason to call it unimportant.
        squares = question.batch.add_up(slope.square())
        return torch.where(question.batch.valid, squares.sum(-1).sqrt(), 0)
