"""Replace what is not kept by the baseline, and run the model again without it."""

from __future__ import annotations

from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor

from ..models.adapter import Adapter
from ..models.sites import States, replace, resume
from ..types import Batch, repeat
from .knockout import run_knocked_out


def mask_state(
    state: Float[Tensor, "batch position hidden"],
    keep: Float[Tensor, "batch position"],
    baseline: Float[Tensor, " *place hidden"],
) -> Float[Tensor, "batch position hidden"]:
    """Blend `state` toward `baseline` wherever `keep` is below one."""
    keep = keep.unsqueeze(-1).to(state)  # (batch, position, 1), where the state is
    return keep * state + (1 - keep) * baseline.to(state)


def at_positions(baseline: Float[Tensor, " *row hidden"], batch: Batch) -> Float[Tensor, " *place hidden"]:
    """Lay a baseline with a row per position out over a batch; beyond its last row, that one stands in."""
    return baseline if baseline.dim() == 1 else baseline[batch.order.clamp_max(len(baseline) - 1)]


def run_masked(
    model: Adapter,
    batch: Batch,
    states: States,
    site_name: str,
    keep: Float[Tensor, "batch unit"] | Bool[Tensor, "batch unit"],
    baseline: Float[Tensor, " *row hidden"] | None,
) -> Any:
    """Run the model with the dropped units replaced at a site, computing only what comes after it.

    Padding keeps its own state: what stands there must not change with a mask that is not about it. Without a
    baseline the dropped units are knocked out of everyone's attention instead.
    """
    if baseline is None:
        return run_knocked_out(model, batch, keep)
    state = mask_state(states[site_name], batch.spread(keep), at_positions(baseline, batch))
    with resume(model.sites[site_name], state, states):
        return model(batch)


def run_copies(
    model: Adapter,
    copies: Batch,
    states: States,
    site_name: str,
    keeps: Float[Tensor, "copy batch unit"] | Bool[Tensor, "copy batch unit"],
    baseline: Float[Tensor, " *row hidden"] | None,
) -> Any:
    """Run several masks of one site in one pass, on as many `copies` of the batch that was seen.

    Small models leave a GPU waiting for its next kernel, and one large pass has as few as one small.
    """
    if baseline is None:
        return run_knocked_out(model, copies, keeps.flatten(0, 1))
    state, keep = repeat(states[site_name], len(keeps)), copies.spread(keeps.flatten(0, 1))
    state = mask_state(state, keep, at_positions(baseline, copies))
    with replace(model.sites[site_name], state):
        return model(copies)
