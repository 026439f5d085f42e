"""Integrated gradients: what each unit adds to the target on the straight way from the baseline to its state.

Sundararajan, Taly and Yan (2017). The contributions add up to what the whole way changes, if its points are dense
enough. All gated units move at once; what belongs to no unit keeps its state, as under a mask.

A baseline of exactly zero in front of a layer norm is a trap: the norm undoes how small a state is but cannot undo
nothing, so the target jumps at the very start of the way, and no point sees that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError
from ..masking.mask import mask_state
from ..objective.captum_engine import Engine, captum_integrated_gradients, check_engine
from ..objective.target import gradient
from ..training.step import Look, look
from ..types import repeat
from .method import Method, Question


@dataclass(frozen=True)
class IntegratedGradients(Method):
    """The size of a unit's contribution, summed over its positions before the sign is dropped."""

    steps: Annotated[int, "points on the way from the baseline to the state"] = 50
    batch_size: Annotated[int, "rows in one pass, one per point and example; never fewer than the batch has"] = 64
    engine: Annotated[Engine, "who does the work: own, or captum for a second opinion"] = "own"

    def __post_init__(self) -> None:
        check_engine(self.engine)
        for name, value in (("steps", self.steps), ("batch_size", self.batch_size)):
            if value < 1:
                raise SettingError(f"{name} of integrated gradients must be at least 1, got {value}")

    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        return self.signed(question).abs()

    def signed(self, question: Question) -> Float[Tensor, "batch unit"]:
        """Return what each unit adds to the target, or takes from it."""
        with question.model.frozen():
            seen = look(question.model, question.task, question.batch)
            start = question.path_start(seen.states[question.site_name])
            change = self._change(seen, question.site_name, start).sum(-1, keepdim=True)  # (batch, position, 1)
        return torch.where(question.batch.valid, question.batch.add_up(change).squeeze(-1), 0)

    def _change(
        self, seen: Look, site_name: str, start: Float[Tensor, "batch position hidden"]
    ) -> Float[Tensor, "batch position hidden"]:
        """Return what each number of the state adds on the way."""
        if self.engine == "captum":
            return captum_integrated_gradients(seen, site_name, start, self.steps, self.batch_size)
        return self._mean_slope(seen, site_name, start) * (seen.states[site_name].float() - start.float())

    def _mean_slope(
        self, seen: Look, site_name: str, baseline: Float[Tensor, "batch position hidden"]
    ) -> Float[Tensor, "batch position hidden"]:
        """Average the gradient over the way, several points of it in one pass."""
        shares, weights = rule(self.steps)
        size = max(1, self.batch_size // len(seen.batch))
        parts = [slice(start, start + size) for start in range(0, self.steps, size)]
        slopes = [self._slope(seen, site_name, baseline, shares[part], weights[part]) for part in parts]
        return torch.stack(slopes).sum(0)

    def _slope(
        self,
        seen: Look,
        site_name: str,
        baseline: Float[Tensor, "batch position hidden"],
        shares: Float[Tensor, " point"],
        weights: Float[Tensor, " point"],
    ) -> Float[Tensor, "batch position hidden"]:
        """Add up the weighted gradients at some points of the way, in one pass."""
        state = points(seen, seen.states[site_name], shares.to(baseline.device), baseline)
        slopes = gradient(seen, site_name, state).view(len(shares), *seen.states[site_name].shape)
        return torch.tensordot(weights.to(slopes), slopes, dims=1)


def rule(steps: int) -> tuple[Float[Tensor, " point"], Float[Tensor, " point"]]:
    """Return points in (0, 1) and their weights, after Gauss and Legendre.

    On a smooth way the error falls faster than any power of their number, and they lie denser toward both ends, where
    a norm turns fast when the baseline is small.
    """
    places, weights = np.polynomial.legendre.leggauss(steps)
    return torch.from_numpy((places + 1) / 2).float(), torch.from_numpy(weights / 2).float()


def points(
    seen: Look,
    state: Float[Tensor, "batch position hidden"],
    shares: Float[Tensor, " point"],
    baseline: Float[Tensor, "batch position hidden"],
) -> Float[Tensor, "row position hidden"]:
    """Return the states some shares of the way from the baseline to `state`, one copy of the batch after the other."""
    copies = seen.batch.repeat(len(shares))
    keep = shares.repeat_interleave(len(seen.batch)).unsqueeze(1).expand(copies.valid.shape)
    return mask_state(repeat(state, len(shares)), copies.spread(keep), repeat(baseline, len(shares)))
