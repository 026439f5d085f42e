"""Sets of so many units: the highest-scored ones, or two at random that a ranking is learned from."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from .noise import Part

Sizes = Literal["even", "half"]


def keep_highest(
    scores: Float[Tensor, "batch unit"], count: Int[Tensor, " batch"], valid: Bool[Tensor, "batch unit"]
) -> Float[Tensor, "batch unit"]:
    """Keep the `count` highest-scored real units of each example; of equal ones the first.

    >>> keep_highest(torch.tensor([[1.0, 3.0, 2.0]]), torch.tensor([2]), torch.ones(1, 3, dtype=torch.bool))
    tensor([[0., 1., 1.]])
    """
    return ((_places(scores, valid) < count.unsqueeze(1)) & valid).float()


def draw_pair(
    valid: Bool[Tensor, "batch unit"], generator: torch.Generator, part: Part | None = None, sizes: Sizes = "even"
) -> tuple[Float[Tensor, "batch unit"], Float[Tensor, "batch unit"]]:
    """Draw two sets of the same size for each example, as unlike as the size allows.

    They are the first and the last k units of a random order: without a common unit up to half of all units, and
    beyond that each lacks what only the other has. `sizes` are even between one unit and all but one (a single unit is
    a set of its own), or always half. The examples may be `part` of a batch.
    """
    rows, units = valid.shape
    drawn = (part or Part(0, rows, rows)).uniform(valid.new_zeros(1, rows, units + 1, dtype=torch.float32), generator)
    return make_pair(drawn[0, :, :1], drawn[0, :, 1:], valid, sizes)


def make_pair(
    share: Float[Tensor, "batch 1"],
    order: Float[Tensor, "batch unit"],
    valid: Bool[Tensor, "batch unit"],
    sizes: Sizes = "even",
) -> tuple[Float[Tensor, "batch unit"], Float[Tensor, "batch unit"]]:
    """Make two sets of each example, the first and the last units of an order.

    Where sizes are even, a share from [0, 1) says how many.
    """
    real = valid.sum(1, keepdim=True)
    most = (real - 1).clamp_min(1)
    even = 1 + (share * most).long().clamp_max(most - 1)
    count = even if sizes == "even" else (real // 2).clamp_min(1)
    place = _places(order, valid)
    return ((place < count) & valid).float(), ((place >= real - count) & valid).float()


def _places(scores: Float[Tensor, "batch unit"], valid: Bool[Tensor, "batch unit"]) -> Int[Tensor, "batch unit"]:
    """Return the place of each unit, the highest-scored real one first and padding last."""
    order = torch.where(valid, scores, -torch.inf).argsort(dim=1, descending=True, stable=True)
    numbers = torch.arange(order.shape[1], device=order.device).expand_as(order)
    return torch.empty_like(order).scatter_(1, order, numbers)
