"""The information bottleneck of Schulz, Sixt, Tombari and Landgraf (2020): how many nats of each unit must pass.

Noise ε that looks like any state takes the place of a share 1 − λ of the state x, as much as the prediction allows:

    z = λ·x + (1 − λ)·ε        ε ~ N(μ, σ²), as states are usually        λ = sigmoid(α)
    I = KL(z ‖ ε) = ½·((1 − λ)² + (λ·(x − μ)/σ)² − 1) − log(1 − λ), for each feature
    minimise over α:  cross entropy + β · mean of I over positions and features

One λ per unit, α from 5 and β = 10 are the settings De Cao et al. (2020) compared with; Schulz et al. have one λ per
feature. Their optimisers (RMSprop; ten steps of Adam at rate 1) differ from this one, Adam at 0.1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import softplus

from ..errors import DataError, SettingError
from ..gates.noise import normal_noise, number_real
from ..models.sites import capture
from ..objective.divergence import DIVERGENCES, divergence
from ..objective.target import target
from ..settings import check_choices
from ..training.descend import descend
from ..training.perturb import gated_positions, lay_out, predict_from
from ..training.random import NOISE, generator
from ..training.start import Moments
from ..training.step import Look, look
from ..types import Prediction, Value
from .method import Method, Question

START = 5.0  # of α: nearly everything passes
FLOOR = 0.01  # least spread of a feature, in mean spreads of all: one that never moves would carry any amount


@dataclass(frozen=True)
class Bottleneck(Method):
    """The information in nats that passes of a unit, added up over its positions and features; or its mean λ.

    What is usual is measured on the task's training data in every call; `surveyed` does it once for many.
    """

    shares: Annotated[Literal["unit", "feature"], "one λ per unit, or one per feature of it"] = "unit"
    score: Annotated[Literal["information", "share"], "nats that pass, or λ itself as De Cao et al. have it"] = (
        "information"
    )
    beta: Annotated[float, "price of one nat per feature, in nats of cross entropy"] = 10.0
    fit: Annotated[
        str, "cross-entropy of what the model decided (of a value: squared error), or the name of a divergence"
    ] = "cross-entropy"
    steps: Annotated[int, "optimiser steps"] = 500
    learning_rate: Annotated[float, "of α"] = 0.1
    seed: Annotated[int, "of the noise"] = 0
    examples: Annotated[int, "how many training examples say what is usual, evenly spaced"] = 256
    batch_size: Annotated[int, "of these in one pass"] = 32
    mean: Annotated[Float[Tensor, " hidden"] | None, "the usual state of the site, if known"] = None
    std: Annotated[Float[Tensor, " hidden"] | None, "its spread, if known"] = None

    def __post_init__(self) -> None:
        check_choices(self, "bottleneck")
        if self.fit != "cross-entropy":
            DIVERGENCES.get(self.fit)
        if (self.mean is None) != (self.std is None):
            raise SettingError("bottleneck takes mean and std together: give both, or none to measure them")
        for name in ("steps", "examples", "batch_size"):
            if getattr(self, name) < 1:
                raise SettingError(f"bottleneck.{name} must be at least 1, got {getattr(self, name)}")

    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        known, batch = self if self.mean is not None else self.surveyed(question), question.batch
        with question.model.frozen():
            channel = known._channel(question)
            width = 1 if self.shares == "unit" else channel.state.shape[-1]
            start = torch.full((*batch.valid.shape, width), START, device=batch.valid.device)
            alpha = descend(start, partial(self._loss, channel), self.steps, self.learning_rate)
        passed = batch.add_up(channel.nats(alpha).unsqueeze(-1)) if self.score == "information" else alpha.sigmoid()
        return torch.where(batch.valid, passed.mean(-1), 0)

    @torch.no_grad()
    def surveyed(self, question: Question) -> Bottleneck:
        """Return this method with what is usual at the question's site, for many batches of one site."""
        model, task, site = question.model, question.task, question.model.sites[question.depth]
        count, moments = min(self.examples, len(task.train)), Moments()
        if not count:
            raise DataError(
                "method 'bottleneck' measures usual states on the task's training data, and it has none: "
                "give it some, or give the method mean and std"
            )
        chosen = [task.train[number * len(task.train) // count] for number in range(count)]
        with model.frozen():
            for start in range(0, count, self.batch_size):
                batch = task.collate(chosen[start : start + self.batch_size]).to(question.batch.valid.device)
                with capture([site]) as states:
                    model(batch)
                moments.add(states[site.name][gated_positions(batch)])
        mean, std = moments.mean_and_std()
        return replace(self, mean=mean, std=std)

    def _channel(self, question: Question) -> Channel:
        assert self.mean is not None and self.std is not None  # surveyed
        seen = look(question.model, question.task, question.batch)
        state = seen.states[question.site_name].float()
        return Channel(seen, question.site_name, state, self.mean.to(state), spread(self.std.to(state)))

    def _loss(self, channel: Channel, alpha: Tensor, number: int) -> Float[Tensor, " batch"]:
        masked = channel.predict(alpha, generator(self.seed, NOISE, number))
        count = channel.gated.sum(1) * channel.state.shape[-1]
        return mismatch(channel.seen.original, masked, self.fit) + self.beta * channel.nats(alpha).sum(1) / count


@dataclass(frozen=True)
class Channel:
    """The states of a batch at a site, and the noise that may take their place."""

    seen: Look
    site_name: str
    state: Float[Tensor, "batch position hidden"]
    mean: Float[Tensor, " hidden"]
    std: Float[Tensor, " hidden"]

    @property
    def gated(self) -> Bool[Tensor, "batch position"]:
        return gated_positions(self.seen.batch)

    def predict(self, alpha: Float[Tensor, "batch unit width"], draw: torch.Generator) -> Prediction:
        """Predict again with noise for the share of every state that does not pass."""
        placed = lay_out(alpha, self.seen.batch)
        noise = self.mean + self.std * normal_noise(number_real(self.gated), self.state.shape[-1], draw)
        mixed = placed.sigmoid() * self.state + (-placed).sigmoid() * noise
        return predict_from(self.seen, self.site_name, mixed)

    def nats(self, alpha: Float[Tensor, "batch unit width"]) -> Float[Tensor, "batch position"]:
        """Return what passes at each position, 0 where nothing is gated."""
        passed = information(lay_out(alpha, self.seen.batch), (self.state - self.mean) / self.std)
        return torch.where(self.gated, passed.sum(-1), 0)


def spread(std: Float[Tensor, " hidden"]) -> Float[Tensor, " hidden"]:
    """Return the spread of each feature, but never nothing."""
    least = FLOOR * std.mean()
    return std.clamp_min(float(least) or 1.0)


def information(
    alpha: Float[Tensor, "batch position width"], surprise: Float[Tensor, "batch position hidden"]
) -> Float[Tensor, "batch position hidden"]:
    """Return the nats that pass in each feature, given how many spreads it is from the mean."""
    share, rest = alpha.sigmoid(), (-alpha).sigmoid()
    # −log(1 − λ) is softplus(α), which stays exact where λ rounds to 1. Rounding may leave a hair below 0.
    return ((rest.square() + (share * surprise).square() - 1) / 2 + softplus(alpha)).clamp_min(0)


def mismatch(original: Prediction, masked: Prediction, measure: str) -> Float[Tensor, " batch"]:
    """Say how badly a noisy prediction fits: by what was decided, or as a whole."""
    if measure == "cross-entropy" and not any(isinstance(head, Value) for head in original.values()):
        return -target(masked, original)
    return divergence(original, masked, "kl" if measure == "cross-entropy" else measure)
