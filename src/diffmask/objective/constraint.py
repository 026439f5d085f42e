"""When a mask keeps the prediction: the divergence is within a margin, the decision stays the same, or both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..errors import SettingError
from ..types import Bernoulli, Categorical, Prediction
from .divergence import agreement, divergence


class Judged(NamedTuple):
    """What surely holds, and what may: between the two, rounding decides."""

    surely: Bool[Tensor, " batch"]
    maybe: Bool[Tensor, " batch"]


@dataclass(frozen=True)
class Constraint:
    """A prediction is kept within `margin` (inf: at any distance) and, if `decision`, with the same decision."""

    margin: float = 0.1
    measure: str = "kl"
    decision: bool = True

    def __post_init__(self) -> None:
        if not self.margin >= 0:
            raise SettingError(f"margin must be 0 or more, got {self.margin}: no set is closer than the whole")
        if self.margin == torch.inf and not self.decision:
            raise SettingError("margin = inf and decision = False forbid nothing: every set keeps the prediction")

    def holds(self, original: Prediction, masked: Prediction) -> Bool[Tensor, " batch"]:
        """Say which examples keep their prediction."""
        close = divergence(original, masked, self.measure) <= self.margin
        return close & (agreement(original, masked) == 1) if self.decision else close

    def judge(self, original: Prediction, masked: Prediction, slack: float) -> Judged:
        """Say the same of predictions that are known up to `slack`, as log-probabilities and as divergences."""
        distance = divergence(original, masked, self.measure) - self.margin
        judged = Judged(distance <= -slack, distance <= slack)
        if not self.decision or not bool(judged.maybe.any()):
            return judged
        lead = lead_of_decision(original, masked)
        return Judged(judged.surely & (lead > slack), judged.maybe & (lead >= -slack))


def lead_of_decision(original: Prediction, masked: Prediction) -> Float[Tensor, " batch"]:
    """Return by how much the original decision leads the next best answer, in log-probability, where it does least."""
    leads = [_lead(original[name], head) for name, head in masked.items() if isinstance(head, Categorical | Bernoulli)]
    if not leads:
        raw = next(iter(masked.values())).raw
        return torch.full((len(raw),), torch.inf, device=raw.device)
    return torch.stack(leads).amin(0)


def _lead(original: object, masked: Categorical | Bernoulli) -> Float[Tensor, " batch"]:
    assert isinstance(original, Categorical | Bernoulli)  # both were read by one task
    logs, decided = masked.log_probs(), original.decision().unsqueeze(-1)
    others = logs.scatter(-1, decided.expand(*logs.shape[:-1], 1), -torch.inf).amax(-1)
    lead = logs.gather(-1, decided.expand(*logs.shape[:-1], 1)).squeeze(-1) - others
    if masked.real is not None:
        lead = torch.where(masked.real.view(*masked.real.shape, *[1] * (lead.dim() - 2)), lead, torch.inf)
    return lead.reshape(len(lead), -1).amin(1)
