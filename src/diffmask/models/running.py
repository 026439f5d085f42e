"""How a frozen model has to be run so that its states can be seen, and gradients pass through it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


def recomputed(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    """Return a forward that keeps nothing for the backward pass; a frozen model draws nothing at random."""

    @wraps(forward)
    def run(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        return checkpoint(forward, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)

    return run


@contextmanager
def differentiable_recurrence(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Let gradients through recurrent layers on a GPU, where cuDNN refuses them in eval mode.

    Without dropout the two modes of such a layer compute the same; with it, PyTorch's own kernels are used.
    """
    layers = [module for module in modules if isinstance(module, nn.RNNBase)]
    before, modes = torch.backends.cudnn.enabled, [layer.training for layer in layers]
    for layer in layers:
        layer.training = layer.dropout == 0
    if any(layer.dropout for layer in layers):
        torch.backends.cudnn.enabled = False
    try:
        yield
    finally:
        for layer, training in zip(layers, modes, strict=True):
            layer.training = training
        torch.backends.cudnn.enabled = before


@contextmanager
def no_fast_path() -> Iterator[None]:
    """Keep nn.TransformerEncoder's states plain: in eval mode its fast path drops padding from them."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
