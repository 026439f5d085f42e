"""How long the fits of the CIFAR-10 study take beside the passes they are made of, and what an explanation costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch

from ..models.adapter import Adapter
from ..tasks.stored_images import StoredImages
from ..training.fit import Fit
from ..training.step import look

WARM, TIMED = 3, 10  # passes before a clock runs, and while it does


@contextmanager
def computing(device: torch.device, bf16: bool) -> Iterator[None]:
    """Compute as fast as is safe on a GPU: matrices in bfloat16, sums and norms in float32; elsewhere in float32.

    For frozen models alone: as long as it lasts, weights that are trained would be remembered as they were at first.
    """
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    with torch.autocast(device.type, torch.bfloat16, enabled=bf16 and device.type == "cuda"):
        yield


@dataclass(frozen=True)
class Timing:
    """How long a fit took, and the least that its passes alone would take, were every one a plain forward pass.

    A step looks once and runs every mask forward and back; back costs as much as forward, as no weight has a gradient.
    """

    fit_seconds: float
    images: int  # as often as they were seen
    masks: int  # of each of them
    forward_seconds: float  # of one image in a batch of the fit

    @property
    def floor_share(self) -> float:
        return (1 + 2 * self.masks) * self.forward_seconds * self.images / self.fit_seconds

    @property
    def three_forward_share(self) -> float:
        """The share where each image counts as three forward passes, whatever number of masks was tried on it."""
        return 3 * self.forward_seconds * self.images / self.fit_seconds

    def describe(self) -> dict[str, float]:
        shares = {"floor_share": self.floor_share, "three_forward_share": self.three_forward_share}
        return {**asdict(self), **shares}


def timed(
    model: Adapter, task: StoredImages, batch_size: int, images: int, masks: int, make: Callable[[], Any]
) -> tuple[Any, dict[str, float]]:
    """Make a fit, and say how long that took beside the passes it is made of."""
    forward = forward_seconds(model, task, batch_size)
    began = clock(model.device)
    made = make()
    return made, Timing(clock(model.device) - began, images, masks, forward).describe()


@torch.no_grad()
def forward_seconds(model: Adapter, task: StoredImages, batch_size: int) -> float:
    """Time a plain forward pass of a batch and return the seconds per image."""
    batch = task.collate(task.train[:batch_size])
    with model.frozen():
        for number in range(WARM + TIMED):
            if number == WARM:
                began = clock(model.device)
            task.read(model(batch), batch)
        return (clock(model.device) - began) / TIMED / len(batch)


def clock(device: torch.device) -> float:
    """Read the clock when a GPU has finished what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


@torch.no_grad()
def explain_cost(fitted: Fit, ranking: Fit, batch_size: int) -> dict[str, float]:
    """Compare an explanation, the keep set alone or with the ranking, with a plain forward pass."""
    from torch.utils.flop_counter import FlopCounterMode

    model, task = fitted.model, fitted.task
    batch = task.collate(task.validation[:batch_size])

    def plain() -> None:
        task.read(model(batch), batch)

    def explained() -> None:
        fitted.probe.log_keep(look(model, task, batch).reading)

    def both() -> None:
        seen = look(model, task, batch)
        fitted.probe.log_keep(seen.reading)
        ranking.probe.rank(seen.reading, ranking.probe.depth_count - 1)

    counts, seconds = {}, {}
    with model.frozen():
        for name, run in {"plain": plain, "explained": explained, "both": both}.items():
            with FlopCounterMode(display=False) as counter:
                run()
            counts[name], seconds[name] = counter.get_total_flops(), _median_seconds(run, model.device)
    return {
        "images": len(batch),
        "flops": counts["explained"] / counts["plain"],
        "flops_with_ranking": counts["both"] / counts["plain"],
        "time": seconds["explained"] / seconds["plain"],
        "time_with_ranking": seconds["both"] / seconds["plain"],
        "plain_seconds": seconds["plain"],
    }


def _median_seconds(run: Callable[[], None], device: torch.device) -> float:
    taken = []
    for _ in range(WARM + TIMED):
        began = clock(device)
        run()
        taken.append(clock(device) - began)
    return sorted(taken[WARM:])[TIMED // 2]
