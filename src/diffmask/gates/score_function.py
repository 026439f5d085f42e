"""REINFORCE (Williams 1992): gates that are hard when sampled, with the score-function gradient.

The sample has no gradient, so the divergence is given one:

    ∇ E[D] = E[(D − b) · ∇ log p(z)]        b: a moving average of D

`credit` adds a term whose value is zero and whose gradient is that. Whatever multiplies the divergence afterwards,
λ above all, multiplies this gradient too; the authors' code left λ out, so that its constraint had no effect.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

DECAY = 0.99  # of the moving average, as in the authors' code


class ScoreFunction(nn.Module):
    """Bernoulli gates. The average is one number, or one per example where the examples stay the same."""

    average: Tensor
    draws: Tensor

    def __init__(self, example_count: int | None = None) -> None:
        super().__init__()
        self.register_buffer("average", torch.zeros(() if example_count is None else example_count))
        self.register_buffer("draws", torch.zeros(()))
        self.mean: Callable[[Tensor], Tensor] = (
            torch.mean
        )  # over the examples, of all processes where there are several

    def sample(
        self, logits: Float[Tensor, " *shape"], generator: torch.Generator | None = None
    ) -> Float[Tensor, " *shape"]:
        """Draw gates that are exactly 0 or 1."""
        return self.decide(logits, torch.rand(logits.shape, generator=generator, device=logits.device))

    def decide(self, logits: Float[Tensor, " *shape"], noise: Float[Tensor, " *shape"]) -> Float[Tensor, " *shape"]:
        """Turn noise from [0, 1) into gates."""
        return (noise < torch.sigmoid(logits.float())).float()

    def log_open(self, logits: Float[Tensor, " *shape"]) -> Float[Tensor, " *shape"]:
        """Return log P(z = 1)."""
        return F.logsigmoid(logits.float())

    def open(self, logits: Float[Tensor, " *shape"]) -> Float[Tensor, " *shape"]:
        """Return P(z = 1)."""
        return torch.sigmoid(logits.float())

    def logit_of(self, probability: float) -> float:
        """Return the logit at which a gate is open with this probability."""
        return math.log(probability / (1 - probability))

    def credit(
        self,
        divergence: Float[Tensor, " batch"],
        keep: Float[Tensor, "voter batch unit"],
        logits: Float[Tensor, "voter batch unit"],
        valid: Tensor,
    ) -> Float[Tensor, " batch"]:
        """Return the same divergence with the score-function gradient attached."""
        log_prob = -F.binary_cross_entropy_with_logits(logits.float(), keep, reduction="none")
        log_prob = (log_prob * valid).sum((0, 2))  # (batch,)
        advantage = (divergence - self._baseline(divergence)).detach()
        return divergence + advantage * (log_prob - log_prob.detach())

    def _baseline(self, divergence: Tensor) -> Tensor:
        """Return the average before this draw, so that it does not depend on it, and move it on."""
        current = self.mean(divergence.detach()) if self.average.dim() == 0 else divergence.detach()
        before = torch.where(self.draws > 0, self.average, current)
        self.average.copy_(DECAY * before + (1 - DECAY) * current)
        self.draws.add_(1)
        return before
