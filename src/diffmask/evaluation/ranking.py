"""The order scores put units in: who comes first, and how alike two orders are."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..objective.ranking import kendall as kendall

NEAR = 1e-9  # keeps a share times a count on its side of a whole number


def places(
    scores: Float[Tensor, "batch unit"], valid: Bool[Tensor, "batch unit"], noise: Float[Tensor, "batch unit"]
) -> Int[Tensor, "batch unit"]:
    """Return the place of each unit, 0 for the highest score; noise decides between equal scores, padding is last."""
    shuffled = noise.argsort(dim=1)
    mixed = torch.where(valid, scores.double(), -torch.inf).gather(1, shuffled)
    order = shuffled.gather(1, mixed.argsort(dim=1, descending=True, stable=True))
    return order.argsort(dim=1)


def count_up(share: float, valid: Bool[Tensor, "batch unit"]) -> Int[Tensor, " batch"]:
    """Return how many units a share is, rounded up, so that it is never less than one unit."""
    return (share * valid.sum(1).double() - NEAR).ceil().long().clamp_min(1)


def count_near(share: float, valid: Bool[Tensor, "batch unit"]) -> Int[Tensor, " batch"]:
    """Return how many units a share is, rounded to the nearest count, a half up; it may be none."""
    return (share * valid.sum(1).double() + 0.5 + NEAR).floor().long()


def per_row(
    figure: Callable[..., Tensor], valid: Bool[Tensor, "batch unit"], *values: Tensor
) -> Float[Tensor, " batch"]:
    """Compute a figure for each example from the values of its real units."""
    rows = [figure(*(value[row][valid[row]] for value in values)) for row in range(len(valid))]
    return torch.stack([row.to(valid.device, torch.double) for row in rows])


def midranks(values: Float[Tensor, " unit"]) -> Float[Tensor, " unit"]:
    """Rank values from 1, the smallest; equal ones share the mean of their ranks.

    >>> midranks(torch.tensor([3.0, 1.0, 3.0]))
    tensor([2.5000, 1.0000, 2.5000], dtype=torch.float64)
    """
    _, group, count = torch.unique(values, return_inverse=True, return_counts=True)
    return (count.cumsum(0) - (count - 1).double() / 2)[group]


def spearman(first: Float[Tensor, " unit"], second: Float[Tensor, " unit"]) -> Float[Tensor, ""]:
    """Correlate two rankings; NaN if either ranks nothing, or holds a NaN, which has no rank."""
    a, b = (midranks(values) for values in (first, second))
    a, b = a - a.mean(), b - b.mean()
    scale = (a.square().sum() * b.square().sum()).sqrt()
    ranked = (scale > 0) & ~(first.isnan().any() | second.isnan().any())
    return torch.where(ranked, (a * b).sum() / scale, torch.nan).clamp(-1, 1)
