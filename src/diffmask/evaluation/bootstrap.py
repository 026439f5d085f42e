"""How sure a mean over examples is: percentile intervals by resampling the examples (Efron 1979)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import DataError, SettingError

DRAWN = 10_000_000  # examples drawn at a time, to bound memory


@dataclass(frozen=True)
class Interval:
    """A mean with its interval, over how many examples it is, and for how many the figure was not defined."""

    mean: float
    low: float
    high: float
    count: int
    undefined: int


def mean_interval(
    figures: Float[Tensor, " example"], *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Interval:
    """Average figures over the examples that have one, and say how far the mean would move with other examples.

    >>> mean_interval(torch.tensor([1.0, 1.0, float("nan")]))
    Interval(mean=1.0, low=1.0, high=1.0, count=2, undefined=1)
    """
    _check(level, resamples)
    known = figures[~figures.isnan()].double().cpu()
    undefined = len(figures) - len(known)
    if not len(known):
        return Interval(math.nan, math.nan, math.nan, 0, undefined)
    means = _resampled_means(known, resamples, seed).sort().values
    # The resampled means at the border are taken as they are: between two of them, one may be infinite.
    tail = (1 - level) / 2 * (resamples - 1)
    low, high = means[math.floor(tail)], means[resamples - 1 - math.floor(tail)]
    return Interval(float(known.mean()), float(low), float(high), len(known), undefined)


def difference_interval(
    first: Float[Tensor, " example"],
    second: Float[Tensor, " other"],
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Average how much more the first is than the second, example by example, where both are defined."""
    if len(first) != len(second):
        raise DataError(
            f"a paired difference takes figures for the same examples, got {len(first)} and {len(second)} of them"
        )
    return mean_interval(first.double() - second.double(), level=level, resamples=resamples, seed=seed)


def _resampled_means(known: Float[Tensor, " example"], resamples: int, seed: int) -> Float[Tensor, " resample"]:
    generator = torch.Generator().manual_seed(seed)
    size = max(1, DRAWN // len(known))
    counts = [min(size, resamples - start) for start in range(0, resamples, size)]
    draws = (torch.randint(len(known), (count, len(known)), generator=generator) for count in counts)
    return torch.cat([known[rows].mean(1) for rows in draws])


def _check(level: float, resamples: int) -> None:
    if not 0 < level < 1:
        raise SettingError(f"level of an interval must lie between 0 and 1, got {level}")
    if resamples < 1:
        raise SettingError(f"resamples of an interval must be at least 1, got {resamples}")
