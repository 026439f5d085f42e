"""What came of a comparison: a figure for every method, metric and example, and what each method cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from .bootstrap import Interval, difference_interval, mean_interval
from .cost import Cost


@dataclass(frozen=True)
class Failure:
    """A method or a metric that could not answer for an example, and why."""

    method: str
    metric: str | None  # None: the method itself gave no scores
    example: int
    reason: str


@dataclass(frozen=True)
class Comparison:
    """Methods judged by metrics on the same examples."""

    figures: Mapping[str, Mapping[str, Float[Tensor, " example"]]]  # method → metric → one figure per example
    better: Mapping[str, str]  # metric → higher or lower
    costs: Mapping[str, Cost]
    failures: Sequence[Failure]
    setting: Mapping[str, Any]  # where and how: site, removal, examples, seed

    @property
    def methods(self) -> list[str]:
        return list(self.figures)

    @property
    def metrics(self) -> list[str]:
        return list(self.better)

    def interval(self, method: str, metric: str) -> Interval:
        """Return a method's mean figure with its bootstrap interval."""
        return mean_interval(self.figures[method][metric], seed=self.setting["seed"])

    def difference(self, method: str, other: str, metric: str) -> Interval:
        """Return how much more one method's figure is than another's, example by example."""
        figures = self.figures
        return difference_interval(figures[method][metric], figures[other][metric], seed=self.setting["seed"])

    def first(self, metric: str) -> list[str]:
        """Return the method that does best by a metric, with those that the examples do not tell from it.

        The best is found on the examples for which every method has a figure: one that fails on hard examples has an
        easier mean. A method without any figure is left out.
        """
        figures = {name: self.figures[name][metric] for name in self.methods}
        known = {name: values for name, values in figures.items() if not bool(values.isnan().all())}
        shared = ~torch.stack([values.isnan() for values in known.values()]).any(0) if known else torch.tensor([])
        if not bool(shared.any()):
            return []
        means = {name: float(values[shared].mean()) for name, values in known.items()}
        best = (max if self.better[metric] == "higher" else min)(means, key=means.__getitem__)
        return [best, *(name for name in means if name != best and self._level(best, name, metric))]

    def _level(self, best: str, name: str, metric: str) -> bool:
        gap = self.difference(best, name, metric)
        return gap.low <= 0 <= gap.high

    def record(self) -> dict[str, Any]:
        """Return all of it as plain values, as reports and files take them."""
        rows = [
            {"method": method, "metric": metric, "better": self.better[metric], **asdict(self.interval(method, metric))}
            for method in self.methods
            for metric in self.metrics
        ]
        return {
            "setting": dict(self.setting),
            "rows": rows,
            "first": {metric: self.first(metric) for metric in self.metrics},
            "costs": {name: {**asdict(cost), "time_ratio": cost.time_ratio} for name, cost in self.costs.items()},
            "failures": [asdict(failure) for failure in self.failures],
        }
