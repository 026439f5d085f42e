"""Shift the votes of each depth until its thresholded masks just hold the margin.

Training holds the margin on average over noisy masks; the masks that explain have no noise, and validation examples are
not the training's. Where masks break the margin, gates open as far as it takes. Where there is room, only gates that
are `undecided` may close: where nothing more can be dropped but something essential, there is a gap, and a lower
threshold would fall into it.

Each look at the validation examples costs as much as many steps, so few are taken: ever wider shifts until the margin
holds, then where a straight line between the last two says, then the middle, in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..gates.probe import Probe
from .validate import DepthScore

NEAR = 1 / 64  # a shift, or a share of the margin, that makes no difference
LOOKS = 24  # at most, for margins that hold and break at a jump
TINY = 1e-9  # where nothing changed at all


@dataclass(frozen=True)
class Bracket:
    """For each depth a shift that breaks the margin and one that holds it, and log(divergence / margin) at both."""

    low: Tensor
    high: Tensor
    over: Tensor
    under: Tensor  # -∞ where it was not measured yet

    def settled(self) -> Tensor:
        return (self.high - self.low <= NEAR) | (self.under > -NEAR)

    def guess(self, look: int) -> Tensor:
        """Return the shifts to try next; a depth that is settled stays where it holds."""
        width = self.high - self.low
        line = (self.over / (self.over - self.under.clamp_min(-5))).clamp(0.1, 0.9) if look % 2 else 0.5
        inside = self.low + line * width
        wider = torch.minimum(self.low + 2.0 ** (look - 1), self.high)
        return torch.where(self.settled(), self.high, torch.where(self.under.isinf(), wider, inside))

    def narrowed(self, tried: Tensor, found: Tensor) -> Bracket:
        """Put what was tried in the place of the end that it is like."""
        holds = found <= 0
        low, over = torch.where(holds, self.low, tried), torch.where(holds, self.over, found)
        high, under = torch.where(holds, tried, self.high), torch.where(holds, found, self.under)
        return Bracket(low, high, over, under)


@torch.no_grad()
def calibrate(probe: Probe, scores: Callable[[], Sequence[DepthScore]], margin: float, undecided: float) -> None:
    """Find a shift per depth, all depths at once; the smallest one that was measured to hold stays.

    `undecided` is the largest log-odds of a unit that may still be dropped; 0 drops none.
    """

    def beyond(shift: Tensor) -> Tensor:
        probe.shift.copy_(shift)
        measured = [score.divergence / margin for score in scores()]
        return torch.tensor(measured, device=shift.device).clamp_min(TINY).log()

    low = torch.full_like(probe.shift, -undecided)
    over = beyond(low)
    opened = torch.full_like(low, 2 * probe.config.bound)  # opens every gate
    holds = over <= 0
    bracket = Bracket(low, torch.where(holds, low, opened), over, torch.where(holds, over, -torch.inf))
    for look in range(1, LOOKS):
        if bool(bracket.settled().all()):
            break
        tried = bracket.guess(look)
        bracket = bracket.narrowed(tried, beyond(tried))
    probe.shift.copy_(bracket.high)
