"""Search numbers for the units of one batch, every example a problem of its own."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import ModelError


def descend(
    start: Float[Tensor, "batch unit width"],
    loss: Callable[[Tensor, int], Float[Tensor, " batch"]],
    steps: int,
    learning_rate: float,
) -> Float[Tensor, "batch unit width"]:
    """Move from `start` down the loss of each example with Adam, which treats every number on its own.

    `loss` takes the numbers and which step it is.
    """
    found = start.detach().clone().requires_grad_(True)
    optimizer = torch.optim.Adam([found], lr=learning_rate)
    with torch.enable_grad():
        for number in range(steps):
            optimizer.zero_grad()
            total = loss(found, number).sum()
            torch.autograd.backward(total)
            _check(total)
            optimizer.step()
    return found.detach()


def _check(total: Tensor) -> None:
    if not bool(total.isfinite()):
        raise ModelError(
            "the loss of a search over noise became NaN or infinite: the model may overflow on noisy states; run it in "
            "float32, or lower the learning rate"
        )
