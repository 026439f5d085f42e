"""Replace what is not kept by the baseline, and run the model again without it."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..models.adapter import Adapter
from ..models.sites import States, resume
from ..types import Batch


def mask_state(
    state: Float[Tensor, "batch unit hidden"],
    keep: Float[Tensor, "batch unit"],
    baseline: Float[Tensor, " hidden"],
) -> Float[Tensor, "batch unit hidden"]:
    """Blend `state` toward `baseline` wherever `keep` is below one."""
    keep = keep.unsqueeze(-1).to(state.dtype)  # (batch, unit, 1)
    return keep * state + (1 - keep) * baseline.to(state.dtype)


def run_masked(
    model: Adapter,
    batch: Batch,
    states: States,
    site_name: str,
    keep: Float[Tensor, "batch unit"] | Bool[Tensor, "batch unit"],
    baseline: Float[Tensor, " hidden"],
) -> Any:
    """Run the model with the dropped units replaced at a site, computing only what comes after it.

    Padding keeps its own state: what stands there must not change with a mask that is not about it.
    """
    keep = torch.where(batch.valid, keep.float(), 1.0)
    state = mask_state(states[site_name], keep, baseline)
    with resume(model.sites[site_name], state, states):
        return model(batch)
