"""How often a unit that matters is scored above one that does not."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from .hits import marks
from .metric import Case, Metric
from .ranking import midranks, per_row


@dataclass(frozen=True)
class Auroc(Metric):
    """The area under the ROC curve, a tie counting half; NaN unless some units matter and some do not."""

    better = "higher"
    uses_removal = False
    needs = "truth"
    ranks_only = True

    def __call__(self, case: Case) -> Float[Tensor, " batch"]:
        valid = case.question.batch.valid
        return per_row(auroc, valid, case.scores, marks(case.truth, valid))


def auroc(scores: Float[Tensor, " unit"], marked: Bool[Tensor, " unit"]) -> Float[Tensor, ""]:
    """Return one example's area, from the ranks of its marked units (Mann and Whitney 1947)."""
    positive, negative = marked.sum(), (~marked).sum()
    above = midranks(scores)[marked].sum() - positive * (positive + 1) / 2
    return torch.where(positive * negative > 0, above / (positive * negative), torch.nan)
