"""Shift the votes of a depth whose thresholded masks break the margin until they just hold it.

Training holds the margin on average over noisy masks; the masks that explain have no noise, and validation examples are
not the training's. A depth that holds the margin stays as it is, however much room it has: where nothing more can be
dropped but something essential, there is a gap, and a lower threshold would fall into it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ..gates.probe import Probe
from .validate import DepthScore

ROUNDS = 8  # how often the interval of shifts is halved


@torch.no_grad()
def calibrate(probe: Probe, scores: Callable[[], Sequence[DepthScore]], margin: float) -> None:
    """Bisect on a shift per depth, all depths at once; the smallest one that was measured to hold stays."""
    low = torch.zeros_like(probe.shift)
    high = torch.full_like(probe.shift, 2 * probe.config.bound)  # opens every gate
    probe.shift.zero_()
    first = _holding(scores(), margin, low)
    for _ in range(ROUNDS):
        probe.shift.copy_(torch.where(first, 0.0, (low + high) / 2))
        holds = _holding(scores(), margin, low)
        low, high = torch.where(holds, low, probe.shift), torch.where(holds, probe.shift, high)
    probe.shift.copy_(torch.where(first, 0.0, high))


def _holding(scores: Sequence[DepthScore], margin: float, like: torch.Tensor) -> torch.Tensor:
    return torch.tensor([score.divergence <= margin for score in scores], device=like.device)
