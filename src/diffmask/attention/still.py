"""Hold a classifier still while it is measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from .classifier import AttentiveClassifier


@contextmanager
def still(model: AttentiveClassifier) -> Iterator[None]:
    """Switch dropout and the gradients of weights off, and put everything back as it was.

    A GPU's LSTM can be differentiated in training mode only, so LSTMs are in it: one layer each, they have no dropout.
    """
    modes = {module: module.training for module in model.modules()}
    grads = {weight: weight.requires_grad for weight in model.parameters()}
    try:
        model.eval().requires_grad_(False)
        for module in model.modules():
            if isinstance(module, nn.LSTM):
                module.train()
        yield
    finally:
        for module, training in modes.items():
            module.training = training
        for weight, requires_grad in grads.items():
            weight.requires_grad_(requires_grad)
