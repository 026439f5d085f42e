"""Average precision of the ranking against the units that are known to matter."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from .hits import expected_precision, marks
from .metric import Case, Metric
from .ranking import per_row


@dataclass(frozen=True)
class AveragePrecision(Metric):
    """The mean precision down to each unit that matters, over all orders of equal scores."""

    better = "higher"
    uses_removal = False
    needs = "truth"
    ranks_only = True

    def __call__(self, case: Case) -> Float[Tensor, " batch"]:
        valid = case.question.batch.valid
        return per_row(expected_precision, valid, case.scores, marks(case.truth, valid))
