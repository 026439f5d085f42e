"""How far the masked prediction is from the original one, in nats (or squared units for a value).

Every head becomes log-probabilities over its last axis (a Bernoulli has two), so each measure is written once.
Positions of one head and heads of one prediction are summed: start plus end, label by label.
"""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError
from ..registry import Registry
from ..types import Bernoulli, Categorical, Prediction, Value, counted, decisions

LOG_HALF = math.log(0.5)
LOWEST = -1e30

Head = Categorical | Bernoulli | Value


@runtime_checkable
class Measure(Protocol):
    """Compare two log-probability tensors over their last axis."""

    def __call__(self, original: Tensor, masked: Tensor) -> Tensor: ...


DIVERGENCES = Registry(
    "divergence",
    {
        "kl": "diffmask.objective.divergence:kl",
        "js": "diffmask.objective.divergence:js",
        "tv": "diffmask.objective.divergence:tv",
        "decision": "diffmask.objective.divergence:decision",
        "squared-error": "diffmask.objective.divergence:squared_error",
    },
)


def kl(original: Float[Tensor, " *batch c"], masked: Float[Tensor, " *batch c"]) -> Float[Tensor, " *batch"]:
    """KL(original ‖ masked). A category the original rules out costs nothing."""
    possible = original > -torch.inf
    gap = torch.where(possible, original, 0) - torch.where(possible, masked, 0)
    return (original.exp() * gap).sum(-1)


def js(original: Float[Tensor, " *batch c"], masked: Float[Tensor, " *batch c"]) -> Float[Tensor, " *batch"]:
    """Jensen–Shannon: symmetric, at most log 2."""
    # −inf in both would make the gradient of logaddexp NaN; kl ignores what stands there.
    middle = torch.logaddexp(original.clamp_min(LOWEST), masked.clamp_min(LOWEST)) + LOG_HALF
    return (kl(original, middle) + kl(masked, middle)) / 2


def tv(original: Float[Tensor, " *batch c"], masked: Float[Tensor, " *batch c"]) -> Float[Tensor, " *batch"]:
    """Total variation: the most any event's probability changes, at most 1."""
    return (original.exp() - masked.exp()).abs().sum(-1) / 2


def decision(original: Float[Tensor, " *batch c"], masked: Float[Tensor, " *batch c"]) -> Float[Tensor, " *batch"]:
    """How much less likely, in nats, what was decided becomes; 0 where it becomes likelier.

    A model that is unsure says much beside its decision. Under the others all of that has to be kept.
    """
    highest = original.argmax(-1, keepdim=True)
    return (original.gather(-1, highest) - masked.gather(-1, highest)).squeeze(-1).clamp_min(0)


def squared_error(original: Float[Tensor, " *batch"], masked: Float[Tensor, " *batch"]) -> Float[Tensor, " *batch"]:
    """The squared difference of two values."""
    wide = torch.promote_types(original.dtype, torch.float32)
    return (original.to(wide) - masked.to(wide)) ** 2


def divergence(original: Prediction, masked: Prediction, measure: str = "kl") -> Float[Tensor, " batch"]:
    """Sum a measure over the positions and heads of each example; a value is always compared by squared error."""
    compare = DIVERGENCES.get(measure)
    gaps = [(_gap(compare, name, original[name], masked[name]), original[name]) for name in original]
    return torch.stack([_over_positions(gap, head).sum(1) for gap, head in gaps]).sum(0)


def _over_positions(values: Tensor, head: Head) -> Float[Tensor, "batch position"]:
    """Lay out what was computed per position, 0 where the position is not real."""
    if head.real is not None:
        values = values * head.real.view(*head.real.shape, *[1] * (values.dim() - 2))
    return values.reshape(len(values), -1)


def _gap(compare: Measure, name: str, original: Head, masked: Head) -> Tensor:
    if isinstance(original, Value) or isinstance(masked, Value):
        return squared_error(counted(original), counted(masked))
    if compare is squared_error:
        raise SettingError(
            f"output '{name}' is a distribution: use divergence kl, js, tv or decision, not squared-error"
        )
    return compare(original.log_probs(), masked.log_probs())


def agreement(original: Prediction, masked: Prediction) -> Float[Tensor, " batch"]:
    """Say for each example which share of its decisions stayed the same; 1 where there is none to change."""
    before, after = decisions(original), decisions(masked)
    shares = [_share(before[name] == after[name], original[name]) for name in before]
    if not shares:
        raw = next(iter(original.values())).raw
        return torch.ones(len(raw), device=raw.device)
    return torch.stack(shares).mean(0)


def _share(same: Tensor, head: Head) -> Float[Tensor, " batch"]:
    """Return the share of real positions at which something is the same."""
    counted = _over_positions(torch.ones_like(same, dtype=torch.float), head)
    return _over_positions(same.float(), head).sum(1) / counted.sum(1)
