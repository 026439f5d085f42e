"""Read the attention probabilities of a Hugging Face model, and leave it as it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ..errors import ModelError
from ..types import Batch
from .adapter import Adapter
from .sites import capture
from .sites import replace as put
from .structure import blocks_beside


@dataclass(frozen=True)
class Attended:
    """What a model answered, and the attention probabilities it came from, layer by layer in forward order."""

    output: Any
    layers: Sequence[Float[Tensor, "batch head query key"]]


def attention(model: Adapter, batch: Batch, method: str) -> list[Float[Tensor, "batch head query key"]]:
    """Return the attention probabilities of every layer in forward order; `method` is who asks, should there be none.

    Of an encoder-decoder model they are the encoder's, whose positions are the input's.
    """
    return [layer.float().to(batch.valid.device) for layer in attend(model, batch, method).layers]


def attend(model: Adapter, batch: Batch, method: str) -> Attended:
    """Run a model step by step in its attention; what it shows is as it was computed, and has a gradient."""
    with eager(model.model, method), left_clean(model.model):
        output = model(replace(batch, inputs={**batch.inputs, "output_attentions": True}))
    found = getattr(output, "attentions", None) or getattr(output, "encoder_attentions", None) or ()
    prefix = 0 if model.patch is None or not found else max(0, found[0].shape[-1] - batch.shape[1])
    if not found or not all(fits(layer, behind(batch, prefix)) for layer in found):
        raise refusal(model.model, method)
    return Attended(output, found)


def attended(model: Adapter, batch: Batch, layers: Sequence[Float[Tensor, "batch head query key"]]) -> Batch:
    """Return the batch as its attention sees it: an image with what stands before its patches.

    If the answer is read from the first position, [CLS], that one asks; if not, e.g. from their mean, all patches do.
    """
    prefix = layers[0].shape[-1] - batch.shape[1] if layers else max(site.prefix for site in model.sites)
    if not prefix:
        return batch
    first = torch.zeros(len(batch), dtype=torch.long, device=batch.valid.device)
    return replace(behind(batch, prefix), ask=first if reads_first(model, batch.example(0)) else None)


def behind(batch: Batch, prefix: int) -> Batch:
    """Return a batch whose units stand behind some positions that are nobody's and always kept."""
    if not prefix:
        return batch
    rows, count = batch.shape
    place = torch.arange(count, device=batch.valid.device).expand(rows, count) if batch.place is None else batch.place
    return replace(batch, place=nn.functional.pad(place, (prefix, 0), value=-1))


def reads_first(model: Adapter, batch: Batch) -> bool:
    """Say whether the answer depends on the first position of what leaves the last block."""
    site = blocks_beside(model.model, [])[-1]
    with torch.no_grad(), capture([site]) as states:
        model(batch)
    state = states[site.name].requires_grad_(True)
    with torch.enable_grad(), put(site, state):
        output = model(batch)
        size = (output if isinstance(output, Tensor) else output[0]).float().square().sum()
    (slope,) = torch.autograd.grad(size, state, materialize_grads=True)
    return bool((slope[:, 0] != 0).any())


def asking(batch: Batch) -> Float[Tensor, "batch position"]:
    """Share one vote among the positions whose attention counts: the one that answers, or else all that are real."""
    if batch.ask is not None:
        return nn.functional.one_hot(batch.ask, batch.shape[1]).float()
    real = real_positions(batch).float()
    return real / real.sum(1, keepdim=True)


def real_positions(batch: Batch) -> Bool[Tensor, "batch position"]:
    """Say which positions are no padding; special tokens are real for the model even where they are not gated."""
    mask = batch.inputs.get("attention_mask")
    if isinstance(mask, Tensor) and mask.shape == batch.shape:
        return mask.bool()
    return batch.spread(torch.zeros_like(batch.valid)) == 0


def fits(layer: Any, batch: Batch) -> bool:
    """Say whether a layer gave one weight per pair of positions; some attend to windows, or not at all."""
    return (
        isinstance(layer, Tensor)
        and layer.dim() == 4
        and (len(layer), *layer.shape[2:]) == (*batch.shape, batch.shape[1])
    )


def refusal(model: nn.Module, method: str) -> ModelError:
    return ModelError(
        f"{type(model).__name__} gives no attention probabilities, one for every pair of positions, which method "
        f"'{method}' reads from a Hugging Face model: use another, e.g. integrated-gradients"
    )


@contextmanager
def eager(model: Any, method: str) -> Iterator[None]:
    """Let a Hugging Face model compute attention step by step, which alone shows the probabilities, and switch back."""
    if not callable(getattr(model, "set_attn_implementation", None)):
        raise refusal(model, method)
    parts = [part for part in model.modules() if callable(getattr(part, "set_attn_implementation", None))]
    before = [part.config._attn_implementation for part in parts]
    try:
        if set(before) != {"eager"}:
            model.set_attn_implementation("eager")
        yield
    finally:
        for part, name in zip(parts, before, strict=True):  # from the outside in: a part may differ from the whole
            if part.config._attn_implementation != name:
                part.set_attn_implementation(name)


@contextmanager
def left_clean(model: nn.Module) -> Iterator[None]:
    """Take away what a call with output_attentions leaves behind: Hugging Face hooks every layer once, and for good.

    The mark by which it knows of its hooks goes too, or it would never set them again.
    """
    before = {module: (set(vars(module)), set(module._forward_hooks)) for module in model.modules()}
    try:
        yield
    finally:
        for module, (names, hooks) in before.items():
            for name in set(vars(module)) - names:
                delattr(module, name)
            for hook in set(module._forward_hooks) - hooks:
                del module._forward_hooks[hook]
