"""Repair a mask that breaks its margin: add units back in order of score until the measured divergence is within it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..errors import InfeasibleError
from ..explanation import Explanation
from ..gates.votes import kept
from ..training.fit import Fit
from ..training.step import Look
from .explain import check_depth, describe, looks
from .verify import Measured, measure


@torch.no_grad()
def certify(fitted: Fit, examples: Sequence[Any], *, depth: int | str = -1, batch_size: int = 64) -> list[Explanation]:
    """Explain each example with a kept set whose margin has been measured.

    A batch of examples with up to n units costs at most ⌈log₂ n⌉ + 2 masked passes: each example bisects on how many
    of its highest-scored units to keep, between what the probe kept and everything.
    """
    depth = check_depth(fitted.probe, depth)
    found = []
    with fitted.model.frozen():
        for chunk, seen in looks(fitted, examples, batch_size):
            scores = fitted.probe.log_keep(seen.reading)
            measured = smallest_within_margin(fitted, seen, depth, scores[depth])
            found += describe(fitted, chunk, seen, scores, depth, measured, certified=True)
    return found


def smallest_within_margin(fitted: Fit, seen: Look, depth: int, scores: Float[Tensor, "batch unit"]) -> Measured:
    """Bisect on the number of units kept; the upper end is always a number that was measured to hold."""
    margin, valid = fitted.config.objective.margin, seen.batch.valid
    first = (kept(scores) & valid).sum(1)
    holds = measure(fitted, seen, depth, highest(scores, valid, first)).divergence <= margin
    low, high = torch.where(holds, first - 1, first), torch.where(holds, first, valid.sum(1))
    while bool((high - low > 1).any()):
        middle = (low + high) // 2
        holds = measure(fitted, seen, depth, highest(scores, valid, middle)).divergence <= margin
        low, high = torch.where(holds, low, middle), torch.where(holds, middle, high)
    return _confirm(measure(fitted, seen, depth, highest(scores, valid, high)), margin)


def highest(
    scores: Float[Tensor, "batch unit"], valid: Bool[Tensor, "batch unit"], count: Int[Tensor, " batch"]
) -> Bool[Tensor, "batch unit"]:
    """Keep the `count` real units with the highest scores; of equal ones, the earlier."""
    order = scores.masked_fill(~valid, -torch.inf).argsort(dim=1, descending=True, stable=True)
    rank = order.argsort(dim=1)
    return (rank < count.unsqueeze(1)) & valid


def _confirm(measured: Measured, margin: float) -> Measured:
    worst = int(measured.divergence.argmax())
    if not float(measured.divergence[worst]) <= margin:
        raise InfeasibleError(
            f"an example breaks margin {margin} even with every unit kept (divergence "
            f"{float(measured.divergence[worst]):.3g}): the model does not repeat itself; check for dropout or noise"
        )
    return measured
