"""Free gates: one logit per unit of the examples at hand, and no network. What they find holds for these alone.

They may close a gate because this one prediction survives it, with hindsight no layer of the model has
(De Cao et al. 2020, §2.2); the amortised probe exists because of that. They serve as rival and as upper bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from .noise import number_real
from .votes import Gate, Votes


class FreeGates(nn.Module):
    """Gates for one batch at one site, with a given baseline. Used wherever a probe is."""

    vector: Tensor | None
    order: Tensor

    def __init__(
        self,
        valid: Bool[Tensor, "batch unit"],
        site_name: str,
        baseline: Tensor | None,
        gate: Gate,
        start_open: float = 0.9,
    ) -> None:
        super().__init__()
        self.name, self.gate = site_name, gate
        self.logits = nn.Parameter(torch.full(valid.shape, gate.logit_of(start_open), device=valid.device))
        self.register_buffer("order", number_real(valid))
        self.register_buffer("vector", None if baseline is None else baseline.detach().clone())

    def site_name(self, depth: int) -> str:
        return self.name

    def baseline(self, depth: int) -> Float[Tensor, " *position hidden"] | None:
        return self.vector

    def votes(self, reading: Mapping[str, Tensor], depths: Sequence[int]) -> list[Votes]:
        return [Votes(self.logits.unsqueeze(0), self.gate, self.order) for _ in depths]
