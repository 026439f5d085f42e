"""How far the scores, as a distribution over units, are from the known truth (De Cao et al. 2020, Table 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from .ground_truth import TruthDivergence, divergence_to_truth
from .hits import marks
from .metric import Case, Metric


@dataclass(frozen=True)
class TruthKL(Metric):
    """D_KL(truth ‖ scores), infinite where a true unit has score 0; diffuse scores fare well."""

    better = "lower"
    uses_removal = False
    needs = "truth"

    def __call__(self, case: Case) -> Float[Tensor, " batch"]:
        return _where_known(case, lambda found: found.kl)


@dataclass(frozen=True)
class TruthJS(Metric):
    """D_JS(truth, scores), which also charges for scores on what does not matter."""

    better = "lower"
    uses_removal = False
    needs = "truth"

    def __call__(self, case: Case) -> Float[Tensor, " batch"]:
        return _where_known(case, lambda found: found.js)


def _where_known(case: Case, pick: Callable[[TruthDivergence], Tensor]) -> Float[Tensor, " batch"]:
    """Compare examples that have a truth; NaN for the others."""
    valid = case.question.batch.valid
    truth = marks(case.truth, valid)
    known = truth.any(1)
    figures = torch.full((len(valid),), torch.nan, dtype=torch.double, device=valid.device)
    if bool(known.any()):
        figures[known] = pick(divergence_to_truth(case.scores, truth, valid))
    return figures
