"""Does a method say the same with another seed?

A method without a setting `seed` always does: its spread is 0 and its agreement 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..errors import SettingError
from ..settings import change
from .hits import THRESHOLD
from .metric import Case, Metric
from .ranking import per_row, spearman

SEEDS = 3


@dataclass(frozen=True)
class Stability:
    """Per example: the mean spread of a unit's score, and how alike rankings and kept units are, pair by pair."""

    std: Float[Tensor, " batch"]
    spearman: Float[Tensor, " batch"]
    jaccard: Float[Tensor, " batch"]


def stability(
    scores: Float[Tensor, "seed batch unit"], valid: Bool[Tensor, "batch unit"], threshold: float = THRESHOLD
) -> Stability:
    """Compare the scores of several seeds; a ranking of equal scores has no Spearman, which is then NaN."""
    if len(scores) < 2:
        raise SettingError(f"stability compares the scores of at least 2 seeds, got {len(scores)}")
    scores = scores.double()
    std = (scores.std(0, correction=0) * valid).sum(1) / valid.sum(1)
    alike = _pairwise(scores, lambda a, b: per_row(spearman, valid, a, b))
    kept = (scores > threshold) & valid
    return Stability(std, alike, _pairwise(kept, jaccard))


def jaccard(first: Bool[Tensor, "batch unit"], second: Bool[Tensor, "batch unit"]) -> Float[Tensor, " batch"]:
    """Return the share of units in both sets among those in either; two empty sets are alike."""
    both, either = (first & second).sum(1).double(), (first | second).sum(1)
    return torch.where(either > 0, both / either, 1)


def _pairwise(rows: Tensor, compare: Callable[[Tensor, Tensor], Tensor]) -> Float[Tensor, " batch"]:
    return torch.stack([compare(a, b) for a, b in combinations(rows.unbind(0), 2)]).mean(0)


@dataclass(frozen=True)
class SeedSpread(Metric):
    """The standard deviation of a unit's score over seeds, averaged over units, on the scale of the scores."""

    better = "lower"
    uses_removal = False
    seeds: Annotated[int, "seeds compared, that of the scores among them"] = SEEDS

    def __call__(self, case: Case) -> Float[Tensor, " batch"]:
        found = _with_other_seeds(case, self.seeds)
        return torch.zeros(len(case.scores)).to(case.scores) if found is None else found.std


@dataclass(frozen=True)
class SeedAgreement(Metric):
    """The mean Spearman correlation of the scores of two seeds."""

    better = "higher"
    uses_removal = False
    seeds: Annotated[int, "seeds compared, that of the scores among them"] = SEEDS

    def __call__(self, case: Case) -> Float[Tensor, " batch"]:
        found = _with_other_seeds(case, self.seeds)
        return torch.ones(len(case.scores)).to(case.scores) if found is None else found.spearman


@dataclass(frozen=True)
class SeedOverlap(Metric):
    """The mean Jaccard overlap of the units two seeds keep."""

    better = "higher"
    uses_removal = False
    seeds: Annotated[int, "seeds compared, that of the scores among them"] = SEEDS
    threshold: Annotated[float, "a score above it keeps the unit"] = THRESHOLD

    def __call__(self, case: Case) -> Float[Tensor, " batch"]:
        found = _with_other_seeds(case, self.seeds, self.threshold)
        return torch.ones(len(case.scores)).to(case.scores) if found is None else found.jaccard


def _with_other_seeds(case: Case, seeds: int, threshold: float = THRESHOLD) -> Stability | None:
    """Ask the method again with the seeds after its own; None if it has no seed."""
    method: Any = case.method
    first = _seed_of(method)
    if first is None:
        return None
    others = [change(method, {"seed": first + number})(case.question) for number in range(1, seeds)]
    return stability(torch.stack([case.scores, *others]), case.question.batch.valid, threshold)


def _seed_of(settings: Any) -> int | None:
    """Find the seed of settings, or of a group inside them; the outer one first, as `change` does."""
    if not dataclasses.is_dataclass(settings):
        return None
    own = getattr(settings, "seed", None)
    groups = (getattr(settings, field.name) for field in dataclasses.fields(settings))
    inner = (_seed_of(group) for group in groups)
    return own if own is not None else next((seed for seed in inner if seed is not None), None)
