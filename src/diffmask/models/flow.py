"""Which layers a state flows through, which positions see which there, and where the answer is read in the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..errors import ModelError
from ..types import Batch
from .adapter import Adapter
from .attention import Attended, asking, attend
from .sites import capture, trace
from .sites import replace as put
from .structure import blocks_beside


def attend_after(model: Adapter, batch: Batch, depth: int, method: str) -> Attended:
    """Run a model and return the attention of the layers after a site, which are those whose blocks end after it."""
    site, found = model.sites[depth], list[Attended]()
    order = trace([*blocks_beside(model.model, []), site], lambda: found.append(attend(model, batch, method)))
    before, total, layers = order.index(site), len(order) - order.count(site), found[0].layers
    if before and total != len(layers):
        raise ModelError(
            f"method '{method}' cannot tell which of the {len(layers)} attention layers of "
            f"{type(model.model).__name__} come after site '{site.name}', as {total} blocks ran: ask at its input, "
            "depth 0"
        )
    return replace(found[0], layers=layers[before:])


def visible(batch: Batch, causal: bool) -> Bool[Tensor, "batch query key"]:
    """Say which positions may see which: no padding, if the model is told of it, and in a causal model no later one."""
    real = _unpadded(batch)
    pairs = real.unsqueeze(1) & real.unsqueeze(2)
    return pairs.tril() if causal else pairs


def _unpadded(batch: Batch) -> Bool[Tensor, "batch position"]:
    """Say which positions are no padding, as far as the model is told of it."""
    mask = batch.inputs.get("attention_mask")
    if isinstance(mask, Tensor) and mask.shape == batch.shape:
        return mask.bool()
    return torch.ones(batch.shape, dtype=torch.bool, device=batch.valid.device)


def asked_share(model: Adapter, batch: Batch) -> Float[Tensor, "batch position"]:
    """Share one vote among the positions the answer is read from: `batch.ask`, or what the output depends on.

    Where the output does not say, because no gradient reaches the last block, all real positions share the vote.
    """
    if batch.ask is not None:
        return asking(batch)
    try:
        share = read_share(model, batch, _size)
    except ModelError:
        return asking(batch)
    if share.shape != batch.shape:
        return asking(batch)
    share = share * _unpadded(batch)  # a model without a head shows what stands on padding too
    total = share.sum(1, keepdim=True)
    return share / total if bool((total > 0).all()) else asking(batch)


def _size(output: Any) -> Float[Tensor, " batch"]:
    """Return a number for each example that everything in the first part of the output has an effect on."""
    first: Tensor = output if isinstance(output, Tensor) else output[0]
    return first.float().square().flatten(1).sum(1)


def read_share(
    model: Adapter, batch: Batch, value: Callable[[Any], Float[Tensor, " batch"]]
) -> Float[Tensor, "batch position"]:
    """Share one vote among the positions of what leaves the last block on which the `value` of the output depends.

    That is [CLS] where a head reads it alone, the last token of a language model, or all of what is averaged.
    """
    site = blocks_beside(model.model, [])[-1]
    with torch.no_grad(), capture([site]) as states:
        model(batch)
    state = states[site.name].requires_grad_(True)
    with torch.enable_grad(), put(site, state):
        total = value(model(batch)).sum()
    if not total.requires_grad:
        raise ModelError(
            f"no gradient reaches the last block of {type(model.model).__name__} from its answer, e.g. because it runs "
            "under no_grad: use a method without gradients, such as leave-one-out"
        )
    (slope,) = torch.autograd.grad(total, state, materialize_grads=True)
    read = (slope != 0).any(-1).float().to(batch.valid.device)
    return read / read.sum(1, keepdim=True).clamp_min(1)
