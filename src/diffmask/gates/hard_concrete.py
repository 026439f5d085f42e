"""The Hard Concrete distribution (Louizos et al. 2018): a gate in [0, 1] that is exactly 0 or 1 with some probability.

    u ~ Uniform(0, 1)    s = σ((logit u + logit) / τ)    z = clip(l + (r − l)·s, 0, 1)
    P(z ≠ 0) = σ(logit − τ·log(−l / r))

De Cao et al. use τ = 0.2, l = −0.2, r = 1, which reaches 1 only by rounding: the model with every gate open is then
not quite the original model. Our default stretches past both ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError

TINY = 1e-6  # keeps uniform noise off 0 and 1, where its logit is infinite


@dataclass(frozen=True)
class HardConcrete:
    """A gate whose samples have a gradient. All maths is in float32 or better, whatever the logits are in."""

    temperature: float = 0.5
    low: float = -0.2
    high: float = 1.2

    def __post_init__(self) -> None:
        if not (self.temperature > 0 and self.low < 0 and self.high >= 1):
            raise SettingError(
                f"a Hard Concrete gate needs temperature > 0, low < 0 and high ≥ 1, got temperature "
                f"{self.temperature}, low {self.low}, high {self.high}: otherwise it can never be exactly 0, or 1"
            )

    @property
    def shift(self) -> float:
        """How far the stretch moves the logit at which a gate is open half the time."""
        return self.temperature * math.log(-self.low / self.high)

    def sample(
        self, logits: Float[Tensor, " *shape"], generator: torch.Generator | None = None
    ) -> Float[Tensor, " *shape"]:
        """Draw gates, differentiable in `logits` wherever they are strictly between 0 and 1."""
        wide = _wide(logits)
        noise = torch.rand(wide.shape, generator=generator, device=wide.device, dtype=wide.dtype)
        return self.decide(wide, noise)

    def decide(self, logits: Float[Tensor, " *shape"], noise: Float[Tensor, " *shape"]) -> Float[Tensor, " *shape"]:
        """Turn noise from [0, 1) into gates."""
        wide = _wide(logits)
        relaxed = torch.sigmoid((noise.clamp(TINY, 1 - TINY).logit() + wide) / self.temperature)
        return (self.low + (self.high - self.low) * relaxed).clamp(0, 1)

    def log_open(self, logits: Float[Tensor, " *shape"]) -> Float[Tensor, " *shape"]:
        """Return log P(z ≠ 0), exact in the tails."""
        return F.logsigmoid(_wide(logits) - self.shift)

    def open(self, logits: Float[Tensor, " *shape"]) -> Float[Tensor, " *shape"]:
        """Return P(z ≠ 0)."""
        return torch.sigmoid(_wide(logits) - self.shift)

    def logit_of(self, probability: float) -> float:
        """Return the logit at which a gate is open with this probability."""
        return math.log(probability / (1 - probability)) + self.shift

    def credit(self, divergence: Tensor, keep: Tensor, logits: Tensor, valid: Tensor) -> Tensor:
        """Return the divergence as it is: its gradient already reaches the logits through the sample."""
        return divergence


def _wide(logits: Tensor) -> Tensor:
    return logits if logits.dtype == torch.float64 else logits.float()
