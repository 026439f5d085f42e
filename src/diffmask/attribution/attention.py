"""Raw attention: the weight a unit's positions receive where the answer is made. It needs no baseline and no gradient.

It belongs to a layer, not to a site: at every depth the scores are the same. Whether attention explains anything is
disputed (Jain and Wallace 2019; Wiegreffe and Pinter 2019), so it stands here as a rival to measure.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ..errors import ModelError, SettingError
from ..types import Batch
from .method import Method, Question


@dataclass(frozen=True)
class Attention(Method):
    """The attention a unit receives, averaged over heads: from `batch.ask`, or without it from every real position.

    Of an encoder-decoder model it is the encoder's attention, whose positions are the input's.
    """

    layer: Annotated[int | Literal["mean"], "counted from 0, or from the end with −1; or the mean of all"] = "mean"

    @torch.no_grad()
    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        batch = question.batch
        with question.model.frozen():
            weights = self._of_layer(attention(question))
        votes = asking(batch).unsqueeze(-1)  # (batch, query, 1)
        received = torch.where(votes > 0, votes * weights, 0).sum(1)  # (batch, key); padding may ask for NaN
        return torch.where(batch.valid, batch.add_up(received.unsqueeze(-1)).squeeze(-1), 0)

    def _of_layer(self, layers: Float[Tensor, "layer batch query key"]) -> Float[Tensor, "batch query key"]:
        if self.layer == "mean":
            return layers.mean(0)
        if not -len(layers) <= self.layer < len(layers):
            raise SettingError(f"no attention layer {self.layer}: the model has {len(layers)}, counted from 0")
        return layers[self.layer]


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


def attention(question: Question) -> Float[Tensor, "layer batch query key"]:
    """Return the attention probabilities of every layer, averaged over its heads."""
    model, batch = question.model, question.batch
    with eager(model.model), left_clean(model.model):
        output = model(replace(batch, inputs={**batch.inputs, "output_attentions": True}))
    found = getattr(output, "attentions", None) or getattr(output, "encoder_attentions", None) or ()
    if not found or not all(fits(layer, batch) for layer in found):
        raise refusal(model.model)
    return torch.stack([layer.float().mean(1).to(batch.valid.device) for layer in found])


def fits(layer: Any, batch: Batch) -> bool:
    """Say whether a layer gave one weight per pair of positions; some attend to windows, or not at all."""
    return isinstance(layer, Tensor) and (len(layer), *layer.shape[2:]) == (*batch.shape, batch.shape[1])


def refusal(model: nn.Module) -> ModelError:
    return ModelError(
        f"{type(model).__name__} gives no attention probabilities, one for every pair of positions, which method "
        "'attention' reads from a Hugging Face model: use another, e.g. integrated-gradients"
    )


@contextmanager
def eager(model: Any) -> Iterator[None]:
    """Let a Hugging Face model compute attention step by step, which alone shows the probabilities, and switch back."""
    if not callable(getattr(model, "set_attn_implementation", None)):
        raise refusal(model)
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
