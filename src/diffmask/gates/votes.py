"""What a probe answers: one logit per voter, example and unit."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    Votes that decide at several depths may be `together`, with an axis more.
    """

    logits: Float[Tensor, "voter *depth batch unit"]
    gate: Gate
    order: Int[Tensor, "batch unit"] | None = None

    def sample(
        self, generator: torch.Generator | None = None, part: Part | None = None
    ) -> Float[Tensor, "voter batch unit"]:
        """Draw every voter's gate; their product over voters is the mask. Examples may be `part` of a batch."""
        return self.gate.decide(self.logits, self.noise(generator, part))

    def noise(
        self, generator: torch.Generator | None = None, part: Part | None = None
    ) -> Float[Tensor, "voter batch unit"]:
        """Draw from [0, 1) what decides the gates, for each voter its own."""
        if part is None and self.order is not None:
            return torch.stack([uniform_noise(self.order, generator) for _ in self.logits])
        count = self.logits.shape[1]
        return (part or Part(0, count, count)).uniform(self.logits, generator)

    def log_keep(self) -> Float[Tensor, "*depth batch unit"]:
        """Return the log probability that a unit is kept. Rank by this: in float32 the product itself saturates."""
        return self.gate.log_open(self.logits).sum(0)

    def keep_probability(self) -> Float[Tensor, "*depth batch unit"]:
        return self.log_keep().exp()

    def exact_keep_probability(self) -> Float[Tensor, "*depth batch unit"]:
        """Return it in float64, where units that are kept or dropped almost surely stay in the order of `log_keep`."""
        return self.log_keep().double().exp()

    def hard_keep(self) -> Bool[Tensor, "*depth batch unit"]:
        """Keep a unit that is more likely kept than not: the mask without noise."""
        return kept(self.log_keep())


def together(votes: Sequence[Votes]) -> Votes | None:
    """Put the votes of several depths into one, if there are as many at each and one gate decides them all."""
    first = votes[0]
    if any(vote.gate != first.gate or vote.logits.shape != first.logits.shape for vote in votes):
        return None
    return Votes(torch.stack([vote.logits for vote in votes], dim=1), first.gate)


def span(depths: Sequence[int]) -> slice | list[int]:
    """Return what picks some depths out of all: a slice where they follow one another, as a GPU has to fetch a list."""
    first, last = depths[0], depths[-1]
    return slice(first, last + 1) if list(depths) == list(range(first, last + 1)) else list(depths)


def kept(log_keep: Float[Tensor, " *shape"]) -> Bool[Tensor, " *shape"]:
    """Threshold: a unit is kept when that is more likely than not."""
    return log_keep > LOG_HALF
