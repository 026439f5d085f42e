"""Guan et al. (2019): how much noise each unit bears before the output moves.

    minimise over σ:  E‖f(x + ε) − f(x)‖² − weight · Σ_i log σ_i        ε_i ~ N(0, σ_i²) at every feature of unit i

As in De Cao et al. (2020), f are the raw outputs of the model (logits, or values), σ = softplus(s) with s from −5, and
a unit's score is 1/σ. Where f is linear with slope w_i the optimum is σ_i = √(weight / 2) / ‖w_i‖: the score is then
the size of the gradient. Their optimiser is RMSprop, this one Adam at the same rate; their weights are 0.1 (SST), 1 and
5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from ..errors import SettingError
from ..gates.noise import normal_noise, number_real
from ..training.descend import descend
from ..training.perturb import gated_positions, lay_out, predict_from
from ..training.random import NOISE, generator
from ..training.step import look
from ..types import Prediction, counted
from .method import Method, Question

START = -5.0  # of s: nearly no noise


@dataclass(frozen=True)
class Guan(Method):
    """1/σ of the most noise a unit bears."""

    weight: Annotated[float, "of the noise's entropy against the squared change of the output"] = 0.1
    steps: Annotated[int, "optimiser steps"] = 500
    learning_rate: Annotated[float, "of s"] = 0.1
    seed: Annotated[int, "of the noise"] = 0

    def __post_init__(self) -> None:
        if self.weight <= 0:
            raise SettingError(f"guan.weight must be positive, got {self.weight}: without it no noise is best")
        if self.steps < 1:
            raise SettingError(f"guan.steps must be at least 1, got {self.steps}")

    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        valid = question.batch.valid
        return torch.where(valid, 1 / self.noise(question), 0)

    def noise(self, question: Question) -> Float[Tensor, "batch unit"]:
        """Search the σ of every unit."""
        q, batch = question, question.batch
        with q.model.frozen():
            seen = look(q.model, q.task, batch)
            state = seen.states[q.site_name].float()
            order = number_real(gated_positions(batch))

            def loss(free: Tensor, number: int) -> Float[Tensor, " batch"]:
                noise = normal_noise(order, state.shape[-1], generator(self.seed, NOISE, number))
                noisy = state + lay_out(softplus(free), batch) * noise
                masked = predict_from(seen, q.site_name, noisy)
                entropy = torch.where(batch.valid, softplus(free).log().squeeze(-1), 0).sum(1)
                return squared_change(seen.original, masked) - self.weight * entropy

            start = torch.full((*batch.valid.shape, 1), START, device=state.device)
            found = descend(start, loss, self.steps, self.learning_rate)
        return softplus(found).squeeze(-1)


def squared_change(original: Prediction, masked: Prediction) -> Float[Tensor, " batch"]:
    """Add up the squared changes of all raw outputs of each example; one that is ruled out does not change."""
    changes = []
    for name, head in original.items():
        before, after = counted(head).float(), counted(masked[name]).float()
        possible = before.isfinite()
        gap = torch.where(possible, after, 0) - torch.where(possible, before, 0)
        changes.append(gap.square().reshape(len(gap), -1).sum(1))
    return torch.stack(changes).sum(0)
