"""Compare explanations: every method answers the same questions and is judged by the same metrics.

A comparison that was stopped goes on if it has a directory. A method that fails on an example loses that example, not
the comparison.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..attribution.attribute import as_method
from ..attribution.method import Method
from ..errors import SettingError
from ..models.adapter import Adapter
from ..tasks.task import Task
from ..training.bar import Bar
from ..training.fit import Fit
from . import METRICS, REMOVALS
from .cells import Cells
from .comparison import Comparison, Failure
from .cost import Cost, measure_cost
from .identity import identity
from .metric import Case, Marked, Metric
from .removal import Removal
from .subject import Marks, Subject, about_model, about_probe

KNOWN: dict[Marked, str] = {"truth": "which units matter", "rationale": "which units a person marked"}


def compare(
    model: Fit | Adapter,
    data: Task | Sequence[Any],
    methods: Sequence[str] | Mapping[str, Method],
    metrics: Sequence[str] | Mapping[str, Metric],
    *,
    depth: int | str = -1,
    baseline: Float[Tensor, " *position hidden"] | None = None,
    removal: str | Removal = "baseline",
    truth: Marks | None = None,
    rationale: Marks | None = None,
    batch_size: int = 16,
    seed: int = 0,
    directory: str | Path | None = None,
    progress: bool = False,
) -> Comparison:
    """Judge attribution methods by metrics on the same examples.

    >>> fitted = diffmask.load_embedded()                                                        # doctest: +SKIP
    >>> diffmask.compare(fitted, texts, ["probe", "integrated-gradients"], ["sufficiency"])      # doctest: +SKIP

    `model` is a fitted probe, which can then be one of the methods and brings its baseline, or an adapted model alone.
    `data` is a task, whose validation examples are taken, or examples of the probe's task. `truth` and `rationale` say
    which units matter, or were marked by a person, for the metrics that ask. `seed` is that of the intervals.
    """
    if batch_size < 1:
        raise SettingError(f"batch_size of a comparison must be at least 1, got {batch_size}")
    taken = REMOVALS.get(removal)() if isinstance(removal, str) else removal
    how = {"removal": taken, "truth": truth, "rationale": rationale}
    if isinstance(model, Fit):
        subject = about_probe(model, data, depth, baseline, **how)
    else:
        subject = about_model(model, data, depth, baseline, **how)
    judges = _named("metric", metrics, lambda name: METRICS.get(name)())
    _check_marks(judges, {"truth": truth, "rationale": rationale})
    fitted = model if isinstance(model, Fit) else None
    rivals = {name: as_method(each, fitted) for name, each in _named("method", methods, str).items()}
    setting = {**subject.describe(), "seed": seed}
    rows = range(len(subject.examples))
    batches = [rows[start : start + batch_size] for start in rows[::batch_size]]
    known = {} if directory is None else identity(subject, batches, methods=rivals, metrics=judges)
    cells = Cells(directory, {**setting, "batch_size": batch_size, **known})
    total, found = len(rivals) * len(batches), {name: Judged() for name in rivals}
    with Bar("compare", total, progress) as bar:
        for number, batch in enumerate(batches):
            for name, method in rivals.items():
                make = partial(Judge(subject, judges, name, method).cell, batch)
                found[name] += Judged(**cells.get_or_make(f"{name}-{number:05d}", make))
                bar.advance(total)
    return _collect(found, judges, setting)


def _named(kind: str, given: Sequence[str] | Mapping[str, Any], make: Callable[[str], Any]) -> dict[str, Any]:
    """Make what is given by name, and leave what is given as it is."""
    if not given:
        raise SettingError(f"a comparison needs at least one {kind}: `diffmask list` names them")
    if isinstance(given, Mapping):
        return dict(given)
    return {name: make(name) for name in ([given] if isinstance(given, str) else given)}


def _check_marks(metrics: Mapping[str, Metric], given: Mapping[Marked, Marks | None]) -> None:
    """Refuse a metric whose every figure would be undefined, since nobody said which units are marked."""
    for name, metric in metrics.items():
        if metric.needs is not None and given[metric.needs] is None:
            raise SettingError(
                f"metric '{name}' needs to know {KNOWN[metric.needs]}, and nothing says so: give {metric.needs}=… to "
                "diffmask.compare, a function from a batch and a site to marked units (the command line has no option "
                "for it), or leave the metric out"
            )


@dataclass(frozen=True)
class Judged:
    """What is known of one method for some examples; `+` puts more of them behind."""

    figures: dict[str, list[float | None]] = field(default_factory=dict)  # None: not defined
    failures: list[dict[str, Any]] = field(default_factory=list)
    cost: dict[str, Any] | None = None

    def __add__(self, other: Judged) -> Judged:
        names = {**self.figures, **other.figures}
        figures = {name: [*self.figures.get(name, []), *other.figures.get(name, [])] for name in names}
        return Judged(figures, [*self.failures, *other.failures], self.cost or other.cost)


@dataclass(frozen=True)
class Judge:
    """Judges one method."""

    subject: Subject
    metrics: Mapping[str, Metric]
    name: str
    method: Method

    def cell(self, rows: Sequence[int]) -> dict[str, Any]:
        """Judge the method on some examples, with what it costs on the first of all."""
        judged = self(rows)
        return asdict(judged + Judged(cost=self._cost(rows)) if rows[0] == 0 and not judged.failures else judged)

    def __call__(self, rows: Sequence[int]) -> Judged:
        """Judge the method on some examples; where that fails, on each of them alone."""
        try:
            question = self.subject.question(rows)
            case = self.subject.case(self.method, question, self.method(question))
            figures = {name: _listed(metric(case)) for name, metric in self.metrics.items()}
        except Exception as error:
            if len(rows) == 1:
                return self._alone(rows[0], error)
            return sum((self([row]) for row in rows), start=Judged())
        return Judged(figures)

    def _cost(self, rows: Sequence[int]) -> dict[str, Any]:
        return asdict(measure_cost(self.method, self.subject.question(rows)))

    def _alone(self, row: int, error: Exception) -> Judged:
        """Say what failed for one example: the method, or only some of the metrics."""
        try:
            question = self.subject.question([row])
            case = self.subject.case(self.method, question, self.method(question))
        except Exception:
            return self._nothing(row, None, error, list(self.metrics))
        parts = [self._one(row, name, metric, case) for name, metric in self.metrics.items()]
        return Judged(
            {name: value for part in parts for name, value in part.figures.items()},
            [failure for part in parts for failure in part.failures],
        )

    def _one(self, row: int, name: str, metric: Metric, case: Case) -> Judged:
        try:
            return Judged({name: _listed(metric(case))})
        except Exception as error:
            return self._nothing(row, name, error, [name])

    def _nothing(self, row: int, metric: str | None, error: Exception, names: Sequence[str]) -> Judged:
        failure = Failure(self.name, metric, row, f"{type(error).__name__}: {error}")
        return Judged({name: [None] for name in names}, [asdict(failure)])


def _listed(figures: Float[Tensor, " batch"]) -> list[float | None]:
    """Write figures as JSON can hold them; an infinite one stays what it is."""
    return [None if math.isnan(figure) else figure for figure in figures.double().tolist()]


def _collect(found: Mapping[str, Judged], metrics: Mapping[str, Metric], setting: Mapping[str, Any]) -> Comparison:
    def tensor(figures: Sequence[float | None]) -> Tensor:
        return torch.tensor([math.nan if figure is None else figure for figure in figures], dtype=torch.double)

    return Comparison(
        {name: {metric: tensor(judged.figures[metric]) for metric in metrics} for name, judged in found.items()},
        {name: metric.better for name, metric in metrics.items()},
        {name: Cost(**judged.cost) for name, judged in found.items() if judged.cost is not None},
        [Failure(**failure) for judged in found.values() for failure in judged.failures],
        setting,
    )
