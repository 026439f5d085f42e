"""How far scores are from a known truth: both normalised to sum to one, and compared as distributions.

D_KL(truth ‖ scores) only asks that what matters is not missed, so diffuse scores fare well; D_JS also charges for
scores on what does not matter. De Cao et al. (2020, Table 1) report both.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..errors import DataError
from ..objective.divergence import js, kl


@dataclass(frozen=True)
class TruthDivergence:
    """Per example, for those examples that have a truth; KL is infinite where a true unit has score 0."""

    kl: Float[Tensor, " example"]
    js: Float[Tensor, " example"]


def divergence_to_truth(
    scores: Float[Tensor, "batch unit"], truth: Bool[Tensor, "batch unit"], valid: Bool[Tensor, "batch unit"]
) -> TruthDivergence:
    """Compare scores with the uniform distribution over the true units, on examples that have some."""
    known = truth.any(1)
    if not bool(known.any()):
        raise DataError("no example of this batch has a unit that matters: there is no truth to compare with")
    scores, truth = torch.where(valid, scores, 0)[known].double(), truth[known].double()
    # All scores 0 say nothing about any unit, which is what a uniform attribution says.
    scores = torch.where(scores.sum(1, keepdim=True) > 0, scores, valid[known].double())
    said, right = (_log_normalised(x) for x in (scores, truth))
    return TruthDivergence(kl(right, said), js(right, said))


def _log_normalised(scores: Float[Tensor, "batch unit"]) -> Float[Tensor, "batch unit"]:
    return (scores / scores.sum(1, keepdim=True)).log()
