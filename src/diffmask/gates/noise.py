"""Noise for examples that are each a problem of their own: it knows a unit's number in its example, and nothing else.

Drawn for the shape of a batch, noise would change with the batch mates and with the padding they bring. Here every
example meets the same stream, read from its first real unit on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

BLOCK = 32  # units drawn at a time: a draw of another size may differ from its first number on


@dataclass(frozen=True)
class Part:
    """Which examples of a batch of `total` these are: from `first` to before `end`."""

    first: int
    end: int
    total: int

    def uniform(self, like: Float[Tensor, "voter batch unit"], generator: torch.Generator | None) -> Tensor:
        """Draw from [0, 1) for the whole batch, and return what falls to this part of it."""
        voters, _, units = like.shape
        dtype = torch.promote_types(like.dtype, torch.float32)
        noise = torch.rand(voters, self.total, units, generator=generator, device=like.device, dtype=dtype)
        return noise[:, self.first : self.end]


def number_real(real: Bool[Tensor, "batch unit"]) -> Int[Tensor, "batch unit"]:
    """Number the real units of each example from 0, wherever its padding stands; padding gets any number.

    >>> number_real(torch.tensor([[True, True, False], [False, True, True]]))
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    return (real.long().cumsum(1) - 1).clamp_min(0)


def uniform_noise(
    order: Int[Tensor, "batch unit"], generator: torch.Generator | None = None
) -> Float[Tensor, "batch unit"]:
    """Draw from [0, 1), the same for units of the same number."""
    return _blocks(torch.rand, order, (), generator)


def normal_noise(
    order: Int[Tensor, "batch unit"], hidden: int, generator: torch.Generator | None = None
) -> Float[Tensor, "batch unit hidden"]:
    """Draw standard normal vectors, the same for units of the same number."""
    return _blocks(torch.randn, order, (hidden,), generator)


def _blocks(
    draw: Callable[..., Tensor], order: Tensor, rest: tuple[int, ...], generator: torch.Generator | None
) -> Tensor:
    """Draw for as many blocks of units as the longest example has; a longer one only adds blocks at the end."""
    device = "cpu" if generator is None else generator.device
    count = int(order.max()) // BLOCK + 1
    blocks = [draw(BLOCK, *rest, generator=generator, device=device) for _ in range(count)]
    return torch.cat(blocks).to(order.device)[order]
