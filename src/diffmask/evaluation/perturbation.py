"""Perturbation curves: what is left of the prediction as units go, the most important first or the least.

One direction alone rewards hindsight; their difference, the symmetric relevance gain (Blücher et al. 2024), does not
flip with what replaces a removed unit. Areas are taken over [0, 1], the share of the example's units removed. Equal
scores go in a random order, made from the example and the same in both directions: scores that say nothing gain 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import SettingError
from ..training.draws import unit_noise
from .figure import Figure, check_figure, left_of, predict
from .metric import Case, Metric
from .ranking import count_near, places

First = Literal["most", "least"]


@dataclass(frozen=True)
class Curves:
    """What is left at each share of units removed; `removed` is the share each example came to, in whole units."""

    shares: Float[Tensor, " point"]
    removed: Float[Tensor, "point batch"]
    most_first: Float[Tensor, "point batch"]
    least_first: Float[Tensor, "point batch"]


def curves(case: Case, figure: Figure = "probability", points: int = 11, seed: int = 0) -> Curves:
    """Remove more and more units in both orders, in one call of the removal."""
    counts = _counts(case, points)
    both = torch.cat([_keeps(case, counts, first, seed) for first in ("most", "least")])
    left = left_of(predict(case.question), case.removal(case.question, both), figure)
    removed = counts / case.question.batch.valid.sum(1)
    return Curves(torch.linspace(0, 1, points), removed, *left.chunk(2))


@dataclass(frozen=True)
class AreaMostFirst(Metric):
    """The area under the curve when the most important units go first."""

    better = "lower"
    ranks_only = True
    figure: Annotated[Figure, "of what is left of the prediction"] = "probability"
    points: Annotated[int, "of the curve, from nothing removed to everything"] = 11
    seed: Annotated[int, "of the order of equal scores"] = 0

    def __post_init__(self) -> None:
        _check(self.figure, self.points)

    def __call__(self, case: Case) -> Float[Tensor, " batch"]:
        return _area(case, self, "most")


@dataclass(frozen=True)
class AreaLeastFirst(Metric):
    """The area under the curve when the least important units go first."""

    better = "higher"
    ranks_only = True
    figure: Annotated[Figure, "of what is left of the prediction"] = "probability"
    points: Annotated[int, "of the curve, from nothing removed to everything"] = 11
    seed: Annotated[int, "of the order of equal scores"] = 0

    def __post_init__(self) -> None:
        _check(self.figure, self.points)

    def __call__(self, case: Case) -> Float[Tensor, " batch"]:
        return _area(case, self, "least")


@dataclass(frozen=True)
class SymmetricRelevanceGain(Metric):
    """The area with the least important first, less the area with the most important first."""

    better = "higher"
    ranks_only = True
    figure: Annotated[Figure, "of what is left of the prediction"] = "probability"
    points: Annotated[int, "of the curve, from nothing removed to everything"] = 11
    seed: Annotated[int, "of the order of equal scores"] = 0

    def __post_init__(self) -> None:
        _check(self.figure, self.points)

    def __call__(self, case: Case) -> Float[Tensor, " batch"]:
        found = curves(case, self.figure, self.points, self.seed)
        return area(found.removed, found.least_first) - area(found.removed, found.most_first)


def area(removed: Float[Tensor, "point batch"], left: Float[Tensor, "point batch"]) -> Float[Tensor, " batch"]:
    """Return the area under each example's curve by the trapezoid rule, over the shares it really came to."""
    return torch.trapezoid(left.double(), removed.double(), dim=0)


def _area(case: Case, settings: AreaMostFirst | AreaLeastFirst, first: First) -> Float[Tensor, " batch"]:
    counts = _counts(case, settings.points)
    keeps = _keeps(case, counts, first, settings.seed)
    left = left_of(predict(case.question), case.removal(case.question, keeps), settings.figure)
    return area(counts / case.question.batch.valid.sum(1), left)


def _counts(case: Case, points: int) -> Int[Tensor, "point batch"]:
    shares = torch.linspace(0, 1, points, dtype=torch.double).tolist()
    return torch.stack([count_near(share, case.question.batch.valid) for share in shares])


def _keeps(
    case: Case, counts: Int[Tensor, "point batch"], first: First, seed: int
) -> Float[Tensor, "point batch unit"]:
    """Keep all but the first so many units of an order."""
    batch = case.question.batch
    scores = case.scores if first == "most" else -case.scores
    place = places(scores, batch.valid, unit_noise(batch, seed=seed)[0])
    return (place >= counts.unsqueeze(-1)).float()


def _check(figure: str, points: int) -> None:
    check_figure(figure)
    if points < 2:
        raise SettingError(f"points of a perturbation curve must be at least 2, its two ends, got {points}")
