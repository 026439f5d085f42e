"""The constrained objective, in its two forms.

*margin*: keep as little as possible, such that the divergence stays within a margin.
*rate*:   change as little as possible, such that no more than a share of the units is kept.

The constraint is tightened from where the probe starts to what was asked for. Asked for at once, it is far broken
at the first step, λ answers with a price at which every gate opens and saturates, and the ones that should close never
move again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ..errors import SettingError
from ..gates.votes import Votes
from ..settings import check_choices
from ..types import Prediction
from .divergence import DIVERGENCES, divergence
from .lagrangian import Controller, ControllerConfig, Dual, Index, PublishedConfig, PublishedDual
from .sparsity import SPARSITIES, expected_l0, mean_over_units


@dataclass(frozen=True)
class ObjectiveConfig:
    """What is minimised, and under which constraint."""

    form: Annotated[Literal["margin", "rate"], "sparsest within a margin, or closest within a rate"] = "margin"
    margin: Annotated[float, "largest divergence allowed between the two predictions, in nats"] = 0.1
    rate: Annotated[float, "with form = rate: largest share of units kept"] = 0.5
    divergence: Annotated[str, "kl, js, tv, decision or squared-error"] = "kl"
    sparsity: Annotated[str, "expected-l0 (the papers) or log-open (their codes)"] = "expected-l0"
    smooth: Annotated[float, "price of a squared logit: keeps units undecided that hardly matter either way"] = 0.0
    dual: Annotated[Literal["controller", "published"], "what moves λ"] = "controller"
    controller: ControllerConfig = field(default_factory=ControllerConfig)
    published: PublishedConfig = field(default_factory=PublishedConfig)
    tighten: Annotated[float, "share of the training over which the constraint is tightened"] = 0.5
    loosest: Annotated[
        float, "margin: never looser than this share of what dropping everything changes; 0: no limit"
    ] = 0.0

    def __post_init__(self) -> None:
        check_choices(self, "objective")
        if not self.margin > 0:
            raise SettingError(
                f"margin must be positive, got {self.margin}: at 0 only the full input satisfies "
                "the constraint, so no unit could ever be masked"
            )
        if self.smooth < 0:
            raise SettingError(f"smooth must be 0 or more, got {self.smooth}: it is the price of a squared logit")
        if not 0 < self.rate <= 1:
            raise SettingError(f"rate must lie in (0, 1], got {self.rate}: it is the largest share of units kept")
        if not 0 <= self.tighten < 1:
            raise SettingError(
                f"tighten must lie in [0, 1), got {self.tighten}: some training must see the constraint itself"
            )
        if self.loosest < 0:
            raise SettingError(f"loosest must be 0 or more, got {self.loosest}: it is a share of a divergence")
        DIVERGENCES.get(self.divergence)
        SPARSITIES.get(self.sparsity)


@dataclass(frozen=True)
class Loss:
    """The terms of one step, kept apart so that logs can show each; at several depths at once, one after the other."""

    total: Float[Tensor, " *depth"]
    divergence: Float[Tensor, " *depth batch"]
    kept: Float[Tensor, " *depth batch"]

    def each(self) -> list[Loss]:
        """Take the loss of several depths apart."""
        parts = (terms.unbind() for terms in (self.total, self.divergence, self.kept))
        return [Loss(*terms) for terms in zip(*parts, strict=True)]


def over_examples(values: Float[Tensor, " *depth batch"]) -> Float[Tensor, " *depth"]:
    """Average over the examples of a batch."""
    return values.mean(-1)


class Objective(nn.Module):
    """Scores a mask and moves λ; `count` constraints, one per depth or one per example."""

    start: Tensor

    def __init__(self, config: ObjectiveConfig, count: int) -> None:
        super().__init__()
        self.config = config
        self.sparsity = SPARSITIES.get(config.sparsity)
        self.dual: Dual = (
            Controller(count, config.controller)
            if config.dual == "controller"
            else PublishedDual(count, config.published)
        )
        self.register_buffer("start", torch.zeros(count))
        self.mean: Callable[[Tensor], Tensor] = over_examples  # of all processes where there are several

    def divergence(self, original: Prediction, masked: Prediction) -> Float[Tensor, " batch"]:
        return divergence(original, masked, self.config.divergence)

    def target(self, index: Index, progress: float | Sequence[float]) -> Tensor:
        """Return what the constrained level must stay below now: from its start down to what was asked for."""
        asked = self.config.margin if self.config.form == "margin" else self.config.rate
        first = (self.start[index] / asked).clamp_min(1)
        if isinstance(progress, float | int):
            return asked * first ** self._left(progress)
        left = [self._left(share) for share in progress]
        return asked * first ** (left[0] if len(set(left)) == 1 else first.new_tensor(left))

    def _left(self, progress: float) -> float:
        return max(0.0, 1 - progress / self.config.tighten) if self.config.tighten else 0.0

    def forward(
        self,
        divergence: Float[Tensor, " *depth batch"],
        votes: Votes,
        valid: Bool[Tensor, "batch unit"],
        index: Index,
        progress: float | Sequence[float],
    ) -> Loss:
        """Weigh what the mask changed against what it keeps: on average at a depth, or at each, or for each example."""
        kept = expected_l0(votes, valid)
        sparse = kept if self.sparsity is expected_l0 else self.sparsity(votes, valid)
        if self.config.smooth:
            sparse = sparse + self.config.smooth * mean_over_units(votes.logits.square().sum(0), valid)
        cost, level = (sparse, divergence) if self.config.form == "margin" else (divergence, kept)
        by_depth = isinstance(index, int) or divergence.dim() > 1
        if by_depth:
            cost, level = self.mean(cost), self.mean(level)
        total = self.dual(cost, level, self.target(index, progress), index)
        return Loss(total if by_depth else total.mean(), divergence.detach(), kept.detach())
