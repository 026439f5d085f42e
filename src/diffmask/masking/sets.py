"""Sets of units of one size, in the order of a dictionary: made from their numbers, so that any stretch can be had."""

from __future__ import annotations

from math import comb

import torch
from jaxtyping import Bool, Int
from torch import Tensor

MOST_UNITS = 62  # of a set that is written as a number
MOST = 1 << 62  # counts are cut off here: no search gets that far


def count_sets(units: int, least: int, most: int) -> int:
    """Return how many sets of `least` to `most` out of `units` units there are."""
    return sum(comb(units, size) for size in range(least, most + 1))


def sets_of_size(
    units: int, size: int, first: int, count: int, device: torch.device | str = "cpu"
) -> Bool[Tensor, "set unit"]:
    """Return sets number `first` to `first + count` of one size.

    >>> sets_of_size(3, 2, 0, 3).int().tolist()
    [[1, 1, 0], [1, 0, 1], [0, 1, 1]]
    """
    number = torch.arange(first, first + count, device=device)
    left = torch.full_like(number, size)
    chosen = torch.zeros(count, units, dtype=torch.bool, device=device)
    for unit in range(units):
        # With this unit in, so many sets follow: the numbers below that are theirs.
        table = torch.tensor([0] + [min(comb(units - unit - 1, k), MOST) for k in range(size)], device=device)
        inside = number < table[left]
        chosen[:, unit] = inside
        number = torch.where(inside, number, number - table[left])
        left = left - inside.long()
    return chosen


def in_order(sets: Bool[Tensor, "set unit"]) -> Bool[Tensor, "set unit"]:
    """Sort sets of one size in the order of a dictionary, if a number of 64 bits can hold each."""
    if sets.shape[1] > MOST_UNITS:
        return sets
    places = torch.arange(sets.shape[1] - 1, -1, -1, device=sets.device)
    return sets[(sets.long() << places).sum(1).argsort(descending=True)]


def unpack(codes: Int[Tensor, " set"], units: int) -> Bool[Tensor, "set unit"]:
    """Turn numbers into sets: the first unit is the highest bit, so that larger numbers come first in order."""
    places = torch.arange(units - 1, -1, -1, device=codes.device)
    return (codes.unsqueeze(1) >> places & 1).bool()
