"""Sufficiency and comprehensiveness (DeYoung et al. 2020, ERASER): what the chosen units alone keep, and what is lost
without them.

The chosen units are the highest scores at several shares, the figures averaged over the shares (AOPC), or the units
the explanation itself keeps. A share of the units is rounded up, so it is at least one unit, and every example has
every share. Equal scores are ordered at random, with a seed made from the example.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..errors import SettingError
from ..settings import check_choices
from ..training.draws import unit_noise
from .figure import Figure, left, left_of, predict
from .hits import THRESHOLD
from .metric import Case, Metric
from .ranking import count_up, places

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
At = Literal["shares", "kept"]


@dataclass(frozen=True)
class Sufficiency(Metric):
    """What is lost of the prediction when only the chosen units are kept; it may be negative."""

    better = "lower"
    at: Annotated[At, "choose the highest scores at some shares, or the units the explanation keeps"] = "shares"
    shares: Annotated[tuple[float, ...], "with at = shares: parts of the units, rounded up"] = SHARES
    threshold: Annotated[float, "with at = kept: a score above it keeps the unit"] = THRESHOLD
    figure: Annotated[Figure, "of what is left of the prediction"] = "probability"
    seed: Annotated[int, "of the order of equal scores"] = 0

    def __post_init__(self) -> None:
        _check(self, "sufficiency")

    @property
    def ranks_only(self) -> bool:
        return self.at == "shares"

    def __call__(self, case: Case) -> Float[Tensor, " batch"]:
        return _lost(case, _chosen(case, self).float(), self.figure)


@dataclass(frozen=True)
class Comprehensiveness(Metric):
    """What is lost of the prediction when the chosen units are removed."""

    better = "higher"
    at: Annotated[At, "choose the highest scores at some shares, or the units the explanation keeps"] = "shares"
    shares: Annotated[tuple[float, ...], "with at = shares: parts of the units, rounded up"] = SHARES
    threshold: Annotated[float, "with at = kept: a score above it keeps the unit"] = THRESHOLD
    figure: Annotated[Figure, "of what is left of the prediction"] = "probability"
    seed: Annotated[int, "of the order of equal scores"] = 0

    def __post_init__(self) -> None:
        _check(self, "comprehensiveness")

    @property
    def ranks_only(self) -> bool:
        return self.at == "shares"

    def __call__(self, case: Case) -> Float[Tensor, " batch"]:
        return _lost(case, (~_chosen(case, self)).float(), self.figure)


def _check(settings: Sufficiency | Comprehensiveness, name: str) -> None:
    check_choices(settings, name)
    if not settings.shares or not all(0 < share <= 1 for share in settings.shares):
        raise SettingError(f"shares of {name} are parts of the units in (0, 1], got {settings.shares}")


def _chosen(case: Case, settings: Sufficiency | Comprehensiveness) -> Bool[Tensor, "copy batch unit"]:
    batch = case.question.batch
    if settings.at == "kept":
        return ((case.scores > settings.threshold) & batch.valid).unsqueeze(0)
    place = places(case.scores, batch.valid, unit_noise(batch, seed=settings.seed)[0])
    return torch.stack([place < count_up(share, batch.valid).unsqueeze(1) for share in settings.shares]) & batch.valid


def _lost(case: Case, keeps: Float[Tensor, "copy batch unit"], figure: Figure) -> Float[Tensor, " batch"]:
    original = predict(case.question)
    after = left_of(original, case.removal(case.question, keeps), figure)
    return left(original, original, figure) - after.mean(0)
