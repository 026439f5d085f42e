"""How long the fits of the CIFAR-10 study take beside the passes they are made of, and what an explanation costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import torch

from ..models.adapter import Adapter
from ..tasks.stored_images import StoredImages
from ..training.fit import Fit
from ..training.step import look
from .trained import clock

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
    A share above 1 says that the GPU was busier with other jobs while the passes were timed than while the fit ran.
    """

    fit_seconds: float
    images: int  # as often as they were seen
    masks: int  # of each of them
    forward_seconds: float  # of one image among as many as a step masks in one pass

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
    rows = batch_size * masks  # masks of a step share a pass, in which an image takes less time than in a small one
    before, began = forward_seconds(model, task, rows), clock(model.device)
    made, taken = make(), clock(model.device) - began
    forward = min(before, forward_seconds(model, task, rows))
    return made, Timing(taken, images, masks, forward).describe()


@torch.no_grad()
def forward_seconds(model: Adapter, task: StoredImages, rows: int) -> float:
    """Time plain forward passes of so many images and return the seconds per image of the fastest."""
    batch = task.collate(task.train[:rows])
    with model.frozen():
        return min(_seconds(lambda: task.read(model(batch), batch), model.device)) / len(batch)


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
            counts[name], seconds[name] = counter.get_total_flops(), median(_seconds(run, model.device))
    return {
        "images": len(batch),
        "flops": counts["explained"] / counts["plain"],
        "flops_with_ranking": counts["both"] / counts["plain"],
        "time": seconds["explained"] / seconds["plain"],
        "time_with_ranking": seconds["both"] / seconds["plain"],
        "plain_seconds": seconds["plain"],
    }


def _seconds(run: Callable[[], Any], device: torch.device) -> list[float]:
    """Time something again and again, once it is warm."""
    taken = []
    for _ in range(WARM + TIMED):
        began = clock(device)
        run()
        taken.append(clock(device) - began)
    return taken[WARM:]
