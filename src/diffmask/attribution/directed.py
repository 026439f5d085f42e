"""A method that knows for and against, with its sign kept.

Measured by the probability of the decision, an order that puts last what speaks against it does better than one by
size. Rivals that know the sign have to be allowed to say it where ours does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError
from .method import Method, Question, Signed


@runtime_checkable
class KnowsSign(Protocol):
    """What can say of each unit what it adds to the target, or takes from it."""

    def signed(self, question: Question) -> Float[Tensor, "batch unit"]: ...


@dataclass(frozen=True)
class Directed(Signed):
    """Integrated gradients, gradient × input, leave-one-out, KernelSHAP or LIME, from most for to most against."""

    method: Method

    def __post_init__(self) -> None:
        if not isinstance(self.method, KnowsSign):
            raise SettingError(
                f"{type(self.method).__name__} does not say what speaks against a prediction: give a method that does, "
                "such as IntegratedGradients()"
            )

    def signed(self, question: Question) -> Float[Tensor, "batch unit"]:
        assert isinstance(self.method, KnowsSign)  # as checked above
        found = self.method.signed(question)
        # By the largest of the example: scores of a very sure prediction are so small that they would all be a half.
        return found / found.abs().amax(1, keepdim=True).clamp_min(torch.finfo(found.dtype).tiny)
