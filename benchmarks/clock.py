"""Time things in turns, so that whatever else the machine does slows all of them alike, and return ratios."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import torch

Run = Callable[[], object]


def seconds(run: Run) -> float:
    """Return how long a run takes, to the end of what it left a GPU to do."""
    _finish()
    start = time.perf_counter()
    run()
    _finish()
    return time.perf_counter() - start


def ratios(runs: Mapping[str, Run], against: Run, repeats: int) -> dict[str, dict[str, float]]:
    """Time each run between two runs of what it is compared with; the first round warms up and does not count."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(repeats + 1):
        for name, run in runs.items():
            before, own, after = seconds(against), seconds(run), seconds(against)
            if number:
                found[name].append(2 * own / (before + after))
    return {name: spread(values) for name, values in found.items()}


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return the median and the quartiles."""
    ranked = sorted(values)
    quarter = len(ranked) // 4
    return {"ratio": statistics.median(ranked), "low": ranked[quarter], "high": ranked[-1 - quarter]}


def _finish() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
