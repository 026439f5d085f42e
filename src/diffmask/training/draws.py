"""Random draws that belong to an example: made from its own content, so neither batch mates nor padding change them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..types import Batch


def content_seeds(batch: Batch, seed: int = 0) -> list[int]:
    """Derive a seed per example from what the model is given, at its units where there is a value per position."""
    units = (batch.spread(torch.zeros_like(batch.valid)) == 0).cpu()
    given = [value.cpu() for name, value in sorted(batch.inputs.items()) if _belongs(batch, name, value)]
    return [_hash(seed, [_own(batch, tensor, row, units) for tensor in given]) for row in range(len(batch))]


def content_generators(batch: Batch, seed: int = 0) -> list[torch.Generator]:
    """Make one generator per example, on the CPU so that every device draws the same."""
    return [torch.Generator().manual_seed(number) for number in content_seeds(batch, seed)]


def unit_noise(batch: Batch, count: int = 1, seed: int = 0) -> Float[Tensor, "draw batch unit"]:
    """Draw from [0, 1) for the real units of every example; 0 on padding."""
    noise = torch.zeros(count, *batch.valid.shape)
    for row, generator in enumerate(content_generators(batch, seed)):
        real = batch.valid[row].cpu()
        noise[:, row, real] = torch.rand(count, int(real.sum()), generator=generator)
    return noise.to(batch.valid.device)


def _belongs(batch: Batch, name: str, value: object) -> bool:
    """Say whether an input is an example's own; a decoder's is padded in its own way, which must not matter."""
    rows = isinstance(value, Tensor) and value.dim() > 0 and len(value) == len(batch)
    return rows and not name.startswith("decoder_")


def _own(batch: Batch, tensor: Tensor, row: int, units: Bool[Tensor, "batch position"]) -> Tensor:
    return tensor[row][units[row]] if tensor.dim() > 1 and tensor.shape[:2] == batch.shape else tensor[row]


def _hash(seed: int, tensors: Sequence[Tensor]) -> int:
    digest = hashlib.blake2b(str(seed).encode(), digest_size=8)
    for tensor in tensors:
        wide = torch.float64 if tensor.is_floating_point() else torch.int64
        digest.update(tensor.to(wide).contiguous().numpy().tobytes())
    return int.from_bytes(digest.digest(), "big") >> 1  # a seed has 63 bits
