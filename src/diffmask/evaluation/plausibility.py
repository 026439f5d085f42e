"""Plausibility: do the scores pick what a person marked as the reason (DeYoung et al. 2020)?

It says whether an explanation looks right, not whether the model works that way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..training.draws import unit_noise
from .hits import THRESHOLD, Kept, check_kept, expected_precision, marks
from .metric import Case, Metric
from .ranking import per_row, places

KEPT = "kept units: 'size' takes the highest scores, as many as were marked; 'threshold' all scores above it"
Run = tuple[int, int]


@dataclass(frozen=True)
class RationaleAveragePrecision(Metric):
    """Average precision of the ranking against the marked units, over all orders of equal scores."""

    better = "higher"
    uses_removal = False
    needs = "rationale"
    ranks_only = True

    def __call__(self, case: Case) -> Float[Tensor, " batch"]:
        valid = case.question.batch.valid
        return per_row(expected_precision, valid, case.scores, marks(case.rationale, valid))


@dataclass(frozen=True)
class RationaleIouF1(Metric):
    """F1 of runs of neighbouring units: a kept run is right if it overlaps a marked one by half of what both cover.

    Equal scores at the border of a kept set of given size are picked at random, with a seed made from the example.
    """

    better = "higher"
    uses_removal = False
    needs = "rationale"
    kept: Annotated[Kept, KEPT] = "size"
    threshold: Annotated[float, "with kept = threshold: a score above it keeps the unit"] = THRESHOLD
    overlap: Annotated[float, "intersection over union from which a run is right"] = 0.5
    seed: Annotated[int, "of the order of equal scores"] = 0

    def __post_init__(self) -> None:
        check_kept(self.kept)

    @property
    def ranks_only(self) -> bool:
        return self.kept == "size"

    def __call__(self, case: Case) -> Float[Tensor, " batch"]:
        valid = case.question.batch.valid
        marked, kept = marks(case.rationale, valid), self._kept(case)
        rows = zip(kept.tolist(), marked.tolist(), strict=True)
        figures = [run_f1(runs(said), runs(meant), self.overlap) for said, meant in rows]
        return torch.tensor(figures, dtype=torch.double, device=valid.device)

    def _kept(self, case: Case) -> Bool[Tensor, "batch unit"]:
        batch = case.question.batch
        if self.kept == "threshold":
            return (case.scores > self.threshold) & batch.valid
        place = places(case.scores, batch.valid, unit_noise(batch, seed=self.seed)[0])
        return (place < marks(case.rationale, batch.valid).sum(1, keepdim=True)) & batch.valid


def runs(chosen: list[bool]) -> list[Run]:
    """Return the longest runs of neighbouring chosen units, as (first, after the last).

    >>> runs([True, True, False, True])
    [(0, 2), (3, 4)]
    """
    edges = [i for i, (a, b) in enumerate(zip([False, *chosen], [*chosen, False], strict=True)) if a != b]
    return list(zip(edges[::2], edges[1::2], strict=True))


def run_f1(said: list[Run], meant: list[Run], overlap: float) -> float:
    """Count the kept runs that match a marked one; NaN without marked runs."""
    if not meant:
        return float("nan")
    right = sum(max(_overlap(run, other) for other in meant) >= overlap for run in said)
    return 2 * right / (len(said) + len(meant))


def _overlap(first: Run, second: Run) -> float:
    """Return the intersection over the union of two runs."""
    both = max(0, min(first[1], second[1]) - max(first[0], second[0]))
    return both / (first[1] - first[0] + second[1] - second[0] - both)
