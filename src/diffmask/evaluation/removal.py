"""What becomes of a unit that is taken away, which every figure of faithfulness depends on."""

from __future__ import annotations

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor

from ..attribution.method import Question
from ..types import Prediction


class Removal(ABC):
    """Predicts again from what is kept."""

    @abstractmethod
    def __call__(self, question: Question, keeps: Float[Tensor, "copy batch unit"]) -> list[Prediction]:
        """Predict with each of several masks of the same batch; a mask is 1 where a unit is kept."""
