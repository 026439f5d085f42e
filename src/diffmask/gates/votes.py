"""What a probe answers: one logit per voter, example and unit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from .noise import Part, uniform_noise

LOG_HALF = math.log(0.5)


@runtime_checkable
class Gate(Protocol):
    """How a logit becomes a decision."""

    def sample(self, logits: Tensor, generator: torch.Generator | None = None) -> Tensor: ...

    def decide(self, logits: Tensor, noise: Tensor) -> Tensor: ...

    def log_open(self, logits: Tensor) -> Tensor: ...

    def open(self, logits: Tensor) -> Tensor: ...

    def logit_of(self, probability: float) -> float: ...

    def credit(self, divergence: Tensor, keep: Tensor, logits: Tensor, valid: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Votes:
    """The votes of every depth up to one; a unit is kept when all of them keep it.

    With `order`, the number of each unit in its example, noise depends on nothing else: no example knows its mates.
    """

    logits: Float[Tensor, "voter batch unit"]
    gate: Gate
    order: Int[Tensor, "batch unit"] | None = None

    def sample(
        self, generator: torch.Generator | None = None, part: Part | None = None
    ) -> Float[Tensor, "voter batch unit"]:
        """Draw every voter's gate; their product over voters is the mask. Examples may be `part` of a batch."""
        if part is not None:
            return self.gate.decide(self.logits, part.uniform(self.logits, generator))
        if self.order is None:
            return self.gate.sample(self.logits, generator)
        noise = [uniform_noise(self.order, generator) for _ in self.logits]  # each voter its own
        return self.gate.decide(self.logits, torch.stack(noise))

    def log_keep(self) -> Float[Tensor, "batch unit"]:
        """Return the log probability that a unit is kept. Rank by this: in float32 the product itself saturates."""
        return self.gate.log_open(self.logits).sum(0)

    def keep_probability(self) -> Float[Tensor, "batch unit"]:
        return self.log_keep().exp()

    def hard_keep(self) -> Bool[Tensor, "batch unit"]:
        """Keep a unit that is more likely kept than not: the mask without noise."""
        return kept(self.log_keep())


def kept(log_keep: Float[Tensor, " *shape"]) -> Bool[Tensor, " *shape"]:
    """Threshold: a unit is kept when that is more likely than not."""
    return log_keep > LOG_HALF
