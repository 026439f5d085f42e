"""How good a ranking is: what is left of the prediction when its first units are kept, and when they are removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..gates.budget import keep_highest
from ..gates.probe import Probe
from ..objective.worth import worth
from .step import Look

SHARES = (0.25, 0.5, 0.75)  # of the units kept, at which a ranking is validated


@dataclass(frozen=True)
class BudgetScore:
    """A ranking at one depth: what is left when its first units are kept, and when removed, averaged over budgets."""

    depth: int
    kept: float
    removed: float


def scores_at(probe: Probe, seen: Look, depths: Sequence[int]) -> list[Float[Tensor, "batch unit"]]:
    """Return the score of every unit at each of the depths, beside the mean of its example."""
    return [probe.rank(seen.reading, depth) for depth in depths]


@torch.no_grad()
def judge(
    probe: Probe, seen: Look, depths: Sequence[int], measure: str, most: float
) -> Float[Tensor, "way depth batch"]:
    """Measure what is left when the first units of each ranking are kept, and when they are removed, over budgets."""
    scores, valid, rows = scores_at(probe, seen, depths), seen.batch.valid, list[Tensor]()
    for share in SHARES:
        counts = (share * valid.sum(1)).round().long()
        keeps = [keep_highest(score, counts, valid) for score in scores]
        masked = seen.masked_each(probe, [*depths, *depths], [*keeps, *(1 - keep for keep in keeps)])
        rows.append(torch.stack([worth(seen.original, each, measure, most) for each in masked]))
    return torch.stack(rows).mean(0).view(2, len(depths), -1)
