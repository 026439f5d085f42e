"""Whether an input position sees what stands behind it: asked of the model, as few say so and some say it wrongly."""

from __future__ import annotations

import torch
from torch import Tensor

from ..types import Batch
from .adapter import Adapter
from .sites import capture, replace

SAME = 1e-5  # of the largest state: what rounding changes


def sees_ahead(model: Adapter, batch: Batch) -> bool:
    """Say whether an earlier position sees a later one; found out once, on the first example that can tell."""
    if model.sees_ahead is None:
        model.sees_ahead = _found_out(model, batch)
    return not model.causal if model.sees_ahead is None else model.sees_ahead


@torch.no_grad()
def _found_out(model: Adapter, batch: Batch) -> bool | None:
    """Change the first state of the last real position, and look at the last states of those before it."""
    real = batch.inputs["attention_mask"].bool()
    rows = (real.sum(1) > 1).nonzero().flatten().tolist()
    if not rows or len(model.sites) < 2:
        return None
    one, places = batch.example(rows[0]), real[rows[0]].nonzero().flatten()
    first, last = model.sites[0], model.sites[-1]
    with model.frozen():
        with capture([first, last]) as states:
            model(one)
        changed = states[first.name].clone()
        changed[:, places[-1]] = 1 - 2 * changed[:, places[-1]]
        with capture([last]) as after, replace(first, changed):
            model(one)
    return _differ(states[last.name][:, places[:-1]], after[last.name][:, places[:-1]])


def _differ(before: Tensor, after: Tensor) -> bool:
    return bool(((before - after).abs() > SAME * before.abs().max()).any())
