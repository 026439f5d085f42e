"""How costs grow: the slope of log time against log size, for explaining and for the plain forward pass beside it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch

from diffmask.explaining.explain import explain

from .clock import seconds
from .subjects import Subject, minilm

REPEATS = 3


def measure(device: str) -> list[dict[str, Any]]:
    """Return the slopes over units, layers and examples."""
    units = {size: (minilm(device, units=size), 4) for size in (32, 64, 128, 256, 512)}
    layers = {size: (minilm(device, layers=size), 8) for size in (3, 6, 12, 24)}
    one = minilm(device)
    examples = {size: (one, size) for size in (16, 32, 64, 128)}
    return [_slopes(what, sizes) for what, sizes in (("units", units), ("layers", layers), ("examples", examples))]


def _slopes(what: str, sizes: dict[int, tuple[Subject, int]]) -> dict[str, Any]:
    ours, plain = {}, {}
    for size, (subject, count) in sizes.items():
        ours[size], plain[size] = _times(subject, count)
    return {
        "part": "growth",
        "model": "MiniLM",
        "measure": f"slope over {what}",
        "ratio": _slope(list(ours), list(ours.values())),
        "forward": _slope(list(plain), list(plain.values())),
        "seconds": ours,
        "forward_seconds": plain,
    }


def _times(subject: Subject, count: int) -> tuple[float, float]:
    fitted, rows = subject.fit(), list(range(count))
    batch = subject.batch(count)

    @torch.no_grad()
    def plain() -> None:
        subject.model(batch)

    def own() -> None:
        explain(fitted, rows, verify=False, batch_size=64)

    runs: tuple[Callable[[], None], ...] = (own, plain)
    found: list[list[float]] = [[seconds(run) for run in runs] for _ in range(REPEATS + 1)][1:]
    ours, forward = zip(*found, strict=True)
    return statistics.median(ours), statistics.median(forward)


def _slope(sizes: Sequence[int], times: Sequence[float]) -> float:
    """Fit a line to the logarithms."""
    x, y = [math.log(size) for size in sizes], [math.log(time) for time in times]
    slope, _ = statistics.linear_regression(x, y)
    return slope
