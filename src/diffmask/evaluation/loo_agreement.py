"""Do scores rank units as leaving each out does (Jain and Wallace 2019)?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import SettingError
from ..objective.divergence import divergence
from ..types import Prediction
from .figure import predict
from .metric import Case, Metric
from .ranking import kendall, per_row

AT_A_TIME = 64  # units: the predictions without them are all held at once, and a vocabulary is wide


@dataclass(frozen=True)
class LeaveOneOutAgreement(Metric):
    """Kendall's τ-b between the scores and the divergence without each unit; NaN if either ranks nothing.

    Scores and divergences that share many exact zeros agree on them by construction: read it next to a random method.
    """

    better = "higher"
    ranks_only = True
    measure: Annotated[str, "of the divergence"] = "kl"
    tolerance: Annotated[float, "divergences that round to the same multiple of it are equal"] = 1e-6

    def __post_init__(self) -> None:
        if self.tolerance <= 0:
            raise SettingError(
                f"tolerance of leave-one-out agreement must be positive, got {self.tolerance}: rounding makes units "
                "that change nothing differ a little"
            )

    def __call__(self, case: Case) -> Float[Tensor, " batch"]:
        missed = (self._without_each(case) / self.tolerance).round()
        return per_row(kendall, case.question.batch.valid, case.scores.double(), missed)

    def _without_each(self, case: Case) -> Float[Tensor, "batch unit"]:
        valid = case.question.batch.valid
        units = valid.any(0).nonzero().flatten()  # a column of padding alone is nobody's unit
        original = predict(case.question)
        found = torch.cat([self._without(case, original, part) for part in torch.split(units, AT_A_TIME)])
        return torch.zeros(valid.shape, device=valid.device).double().index_copy(1, units, found.T)

    def _without(self, case: Case, original: Prediction, units: Int[Tensor, " copy"]) -> Float[Tensor, "copy batch"]:
        """Leave out each of some units, in all examples at once, and compare."""
        keeps = torch.ones(len(units), *case.scores.shape, device=units.device)
        keeps[torch.arange(len(units), device=units.device), :, units] = 0
        masked = case.removal(case.question, keeps)
        return torch.stack([divergence(original, one, self.measure) for one in masked]).double()
