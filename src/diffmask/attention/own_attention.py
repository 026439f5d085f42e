"""The classifier's own attention as an explanation: one weight per word, the same at every depth."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..attribution.method import Method, Question
from ..errors import ModelError
from .classifier import Attended


@dataclass(frozen=True)
class OwnAttention(Method):
    """The weight each unit's hidden states have in the context of an attentive classifier."""

    @torch.no_grad()
    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        batch = question.batch
        with question.model.frozen():
            output = question.model(batch)
        if not isinstance(output, Attended):
            raise ModelError(
                f"own attention is that of an AttentiveClassifier, got {type(question.model.model).__name__}: for a "
                "Hugging Face model use method 'attention'"
            )
        weights = output.attention.float().unsqueeze(-1)
        return torch.where(batch.valid, batch.add_up(weights).squeeze(-1), 0)
