"""Remove units without a baseline: in every layer nobody may attend to them, and every position stays where it is.

Attention to position j is weighted by its gate, a_ij ∝ z_j·exp(s_ij), by adding log z_j to the scores. A position
always sees itself, so that no row of attention is empty.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..errors import ModelError
from ..models.adapter import Adapter
from ..models.ahead import sees_ahead
from ..models.running import decoder_of
from ..types import Batch


def run_knocked_out(
    model: Adapter, batch: Batch, keep: Float[Tensor, "batch unit"] | Bool[Tensor, "batch unit"]
) -> Any:
    """Run the model with the dropped units out of everyone's sight."""
    real = batch.inputs.get("attention_mask")
    if not isinstance(real, Tensor) or real.dim() != 2:
        raise ModelError(
            f"removal = knockout needs a model that takes an attention_mask (example, position), and "
            f"{type(model.model).__name__} is given {', '.join(batch.inputs)}: use removal = baseline"
        )
    _check_windows(model, real.shape[1])
    _check_one_part(model)
    weights = attention_weights(batch.spread(keep), real.bool(), causal=not sees_ahead(model, batch))
    inputs = {**batch.inputs, "attention_mask": _log(weights, model.dtype).unsqueeze(1)}
    try:
        with _attention_with_gradient(weights):
            return model(replace(batch, inputs=inputs))
    except torch.OutOfMemoryError:
        raise
    except (IndexError, RuntimeError, ValueError) as error:
        raise ModelError(
            f"{type(model.model).__name__} does not take one attention mask per query and key, which removal = "
            f"knockout needs ({error}): use removal = baseline"
        ) from error


def _attention_with_gradient(weights: Tensor) -> AbstractContextManager[None]:
    """Take the plain attention kernel where a gradient must reach the mask: the fused one refuses some lengths."""
    return sdpa_kernel(SDPBackend.MATH) if weights.requires_grad else nullcontext()


def _check_windows(model: Adapter, count: int) -> None:
    """Refuse a model some of whose layers see only a window: one mask for all layers would open it."""
    whole = getattr(model.model, "config", None)
    config = getattr(whole, "text_config", whole)  # of a model that also sees or hears
    sizes = [getattr(config, name, None) for name in ("sliding_window", "local_attention", "attention_chunk_size")]
    window = min((size for size in sizes if isinstance(size, int) and size > 0), default=count)
    if window < count and getattr(config, "use_sliding_window", True):
        raise ModelError(
            f"{type(model.model).__name__} has layers that see {window} positions at a time, fewer than the {count} of "
            "this text, which one mask for all layers would undo: use removal = baseline, or shorter texts"
        )


def _check_one_part(model: Adapter) -> None:
    """Refuse encoders with a decoder, which looks at what they read through the same mask and is no part of it."""
    if decoder_of(model.model) is not None:
        raise ModelError(
            f"{type(model.model).__name__} does not take one attention mask per query and key, which removal = "
            "knockout needs, as its decoder attends through the same mask: use removal = baseline"
        )


def attention_weights(
    keep: Float[Tensor, "batch position"], real: Bool[Tensor, "batch position"], causal: bool
) -> Float[Tensor, "batch query key"]:
    """Return how far each position may see each other one, from 0 to 1."""
    count = keep.shape[1]
    weights = (keep * real).unsqueeze(1).expand(-1, count, -1)
    if causal:
        weights = weights.tril()
    itself = torch.eye(count, dtype=torch.bool, device=keep.device)
    return weights.masked_fill(itself, 1.0)


def _log(weights: Float[Tensor, "batch query key"], dtype: torch.dtype) -> Float[Tensor, "batch query key"]:
    """Return log weights, the lowest number for 0: where −inf met −inf, attention would be NaN."""
    seen = weights > 0
    logs = torch.where(seen, weights, 1.0).log()
    return torch.where(seen, logs, torch.finfo(dtype).min).to(dtype)
