"""How many of the units that scores pick were marked, by a known truth or by a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..errors import SettingError
from ..registry import unknown

Kept = Literal["size", "threshold"]  # as many of the highest scores as are marked, or all scores above a threshold
THRESHOLD = 0.5  # where a gate is more likely open than not


def check_kept(kept: str) -> None:
    """Refuse a way of picking that nobody knows."""
    if kept not in get_args(Kept):
        raise SettingError(unknown("way of picking kept units", kept, get_args(Kept)))


def marks(marked: Bool[Tensor, "batch unit"] | None, valid: Bool[Tensor, "batch unit"]) -> Bool[Tensor, "batch unit"]:
    """Return the marked real units; none where nobody marked any."""
    return torch.zeros_like(valid) if marked is None else marked & valid


@dataclass(frozen=True)
class Hits:
    """How many picked units were marked, how many were picked, how many marked; nothing is defined without marks."""

    both: Float[Tensor, " batch"]
    picked: Float[Tensor, " batch"]
    marked: Float[Tensor, " batch"]

    def precision(self) -> Float[Tensor, " batch"]:
        """Return the share of picked units that were marked; NaN where none was picked."""
        return torch.where(self.marked > 0, self.both / self.picked, torch.nan)

    def recall(self) -> Float[Tensor, " batch"]:
        """Return the share of marked units that were picked."""
        return self.both / self.marked

    def f1(self) -> Float[Tensor, " batch"]:
        """Return the harmonic mean of the two, which is 0 where nothing was picked."""
        return torch.where(self.marked > 0, 2 * self.both / (self.picked + self.marked), torch.nan)


def count_hits(
    scores: Float[Tensor, "batch unit"],
    marked: Bool[Tensor, "batch unit"],
    valid: Bool[Tensor, "batch unit"],
    kept: Kept = "size",
    threshold: float = THRESHOLD,
) -> Hits:
    """Count what picking by score gets right; of equal scores at the border, the mean over all ways to pick."""
    count = marked.sum(1).double()
    if kept == "threshold":
        picked = (scores > threshold) & valid
        return Hits((picked & marked).sum(1).double(), picked.sum(1).double(), count)
    border = _border(torch.where(valid, scores, -torch.inf), marked.sum(1))
    above, tied = ((scores > border) & valid, (scores == border) & valid)
    chance = (count - above.sum(1)) / tied.sum(1)  # of each unit at the border
    return Hits((above & marked).sum(1) + chance * (tied & marked).sum(1), count, count)


def _border(scores: Float[Tensor, "batch unit"], count: Tensor) -> Float[Tensor, "batch 1"]:
    """Return the lowest score that is picked when `count` units are."""
    falling = scores.sort(dim=1, descending=True).values
    return falling.gather(1, (count - 1).clamp_min(0).unsqueeze(1))


def expected_precision(scores: Float[Tensor, " unit"], marked: Bool[Tensor, " unit"]) -> Float[Tensor, ""]:
    """Return one example's average precision: the mean, over marked units, of the precision down to each.

    Units of equal score may come in any order; this is the mean over all of them (McSherry and Najork 2008).
    """
    if not bool(marked.any()):
        return torch.tensor(torch.nan)
    _, group, size = torch.unique(-scores, return_inverse=True, return_counts=True)  # best group first
    hits = torch.zeros_like(size).index_add(0, group, marked.long())
    of = torch.arange(len(size), device=size.device).repeat_interleave(size)  # the group of each place
    place = torch.arange(1, len(scores) + 1, device=size.device)
    inside = place - 1 - (size.cumsum(0) - size)[of]  # units of the same group before this place
    others = ((hits - 1) / (size - 1).clamp_min(1))[of]  # how many of those are marked, if this one is
    found = (hits.cumsum(0) - hits)[of] + 1 + inside * others
    return ((hits / size)[of].double() * found / place).sum() / hits.sum()
