"""Whether an input position sees what stands behind it: asked of the model, as few say so and some say it wrongly."""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor

from ..types import Batch
from .adapter import Adapter
from .sites import Site, capture, replace, trace

SAME = 1e-5  # of the largest state: what rounding changes


def sees_ahead(model: Adapter, batch: Batch) -> bool:
    """Say whether an earlier position sees a later one; found out once, on the first example that can tell."""
    if model.sees_ahead is None:
        model.sees_ahead = _found_out(model, batch)
    return not model.causal if model.sees_ahead is None else model.sees_ahead


def _found_out(model: Adapter, batch: Batch) -> bool | None:
    """Ask the first example that has two real positions, if there are blocks between two sites."""
    real = batch.inputs["attention_mask"].bool()
    rows = (real.sum(1) > 1).nonzero().flatten().tolist()
    if not rows:
        return None
    one = batch.example(rows[0])
    with torch.no_grad(), model.frozen():
        ends = _ends(model, one)
        return None if ends is None else _reaches_back(model, one, real[rows[0]], *ends)


def _ends(model: Adapter, one: Batch) -> tuple[Site, Site] | None:
    """Return the first state that can be replaced and what leaves the last block after it, where there is one."""
    order = trace([*model.sites, *model.passed], lambda: model(one))
    left = [site for site in order[1:] if site.side == "output" and site.module in model.blocks]
    return (order[0], left[-1]) if left and left[-1] is not order[0] else None


def _reaches_back(model: Adapter, one: Batch, real: Bool[Tensor, " position"], first: Site, last: Site) -> bool:
    """Change the first state of the last real position, and see whether the last states of those before it change."""
    places = real.nonzero().flatten()
    with capture([first, last]) as states:
        model(one)
    changed = states[first.name].clone()
    changed[:, places[-1]] = 1 - 2 * changed[:, places[-1]]
    with capture([last]) as after, replace(first, changed):
        model(one)
    before = states[last.name][:, places[:-1]]
    return bool(((before - after[last.name][:, places[:-1]]).abs() > SAME * before.abs().max()).any())
