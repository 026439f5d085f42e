"""Shift the votes of each depth until its thresholded masks just hold the margin.

Training holds the margin on average over noisy masks; the masks that explain have no noise, and validation examples are
not the training's. Where masks break the margin, gates open as far as it takes. Where there is room, only gates that
are `undecided` may close: where nothing more can be dropped but something essential, there is a gap, and a lower
threshold would fall into it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ..gates.probe import Probe
from .validate import DepthScore

ROUNDS = 10  # how often the interval of shifts is halved


@torch.no_grad()
def calibrate(probe: Probe, scores: Callable[[], Sequence[DepthScore]], margin: float, undecided: float) -> None:
    """Bisect on a shift per depth, all depths at once; the smallest one that was measured to hold stays.

    `undecided` is the largest log-odds of a unit that may still be dropped; 0 drops none.
    """
    low = torch.full_like(probe.shift, -undecided)
    high = torch.full_like(probe.shift, 2 * probe.config.bound)  # opens every gate
    probe.shift.copy_(low)
    first = _holding(scores(), margin, low)
    for _ in range(ROUNDS):
        probe.shift.copy_(torch.where(first, -undecided, (low + high) / 2))
        holds = _holding(scores(), margin, low)
        low, high = torch.where(holds, low, probe.shift), torch.where(holds, probe.shift, high)
    probe.shift.copy_(torch.where(first, -undecided, high))


def _holding(scores: Sequence[DepthScore], margin: float, like: torch.Tensor) -> torch.Tensor:
    return torch.tensor([score.divergence <= margin for score in scores], device=like.device)
