"""Give a vision transformer the positions of images of another size, once for all instead of at every call.

What a model's size is held by differs from class to class and from release to release (the embeddings, the patch
embeddings, a buffer of numbers), so nothing is set by name: a twin of the same class is made for the other size, and
gets all weights. Where the positions alone have another shape in it, the model's own interpolation makes them.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from ..errors import ModelError


@torch.no_grad()
def stretched(model: Any, size: int) -> Any:
    """Return a model for images of so many pixels: a twin with stretched positions, or itself if it takes any size.

    A model whose size is in other weights too, such as BEiT's relative positions, is left alone if it takes the images.
    """
    if _own_size(model.config) in (size, (size, size)):
        return model
    twin = None if _own_size(model.config) is None else _twin(model, size)
    found = model if twin is None else _with_weights(twin, model, size)
    if not _takes(found, size):
        raise _refusal(model, size)
    return found


def _holder(config: Any) -> Any:
    """Return what says how large images are: the settings, or those of the part that sees."""
    return config if getattr(config, "image_size", None) is not None else getattr(config, "vision_config", None)


def _own_size(config: Any) -> int | tuple[int, ...] | None:
    said = getattr(_holder(config), "image_size", None)
    return tuple(said) if isinstance(said, list | tuple) else said


def _twin(model: Any, size: int) -> Any:
    """Make a model of the same class for images of another size; its weights are drawn."""
    config = deepcopy(model.config)
    _holder(config).image_size = size
    with torch.random.fork_rng(devices=[]):
        twin = type(model)(config)
    return twin.to(device=model.device, dtype=model.dtype).train(model.training)


def _with_weights(twin: Any, model: Any, size: int) -> Any:
    """Give a twin the weights of a model, its positions stretched; return the model if more than those would differ."""
    weights, wanted = model.state_dict(), twin.state_dict()
    other = [name for name, weight in weights.items() if weight.shape != wanted[name].shape]
    owner = _stretcher(model, other[0]) if len(other) == 1 else None
    if owner is None:
        return model
    shape = wanted[other[0]].shape  # with an axis for the batch, or without
    try:
        new: Tensor = owner.interpolate_pos_encoding(weights[other[0]].new_zeros(1, *shape[-2:]), size, size)
    except RuntimeError as error:  # of positions that are no square, as most stretch squares alone
        raise _refusal(model, size) from error
    twin.load_state_dict({**weights, other[0]: new.reshape(shape)})
    return twin


def _stretcher(model: Any, weight: str) -> Any:
    """Return the part of a model that holds a weight and knows how to stretch positions."""
    parts = (part for name, part in model.named_modules() if weight.startswith(f"{name}."))
    return next((part for part in parts if hasattr(part, "interpolate_pos_encoding")), None)


def _takes(model: Any, size: int) -> bool:
    channels = getattr(_holder(model.config) or model.config, "num_channels", 3)
    try:
        model(pixel_values=torch.zeros(1, channels, size, size, device=model.device, dtype=model.dtype))
    except (ValueError, RuntimeError):
        return False
    return True


def _refusal(model: Any, size: int) -> ModelError:
    own = _own_size(model.config)
    said = "×".join(map(str, own)) if isinstance(own, tuple) else own
    return ModelError(
        f"{type(model).__name__} takes images of {said} pixels and cannot stretch its positions to {size}: use a ViT "
        "or DINOv2"
    )
