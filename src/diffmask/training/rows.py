"""A table of tensors, one row per example, in memory or in a file that is mapped into it.

What an example has per position (*ragged*) is stored without its padding, and laid out again over the positions of
whatever batch it comes in; everything else has one shape for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Bool, Int
from torch import Tensor


class Rows:
    """One tensor per example; `counts` says how many entries a row has, 1 where it is not ragged."""

    def __init__(
        self,
        counts: Int[Tensor, " example"],
        shape: Sequence[int],
        dtype: torch.dtype,
        ragged: bool,
        fill: float = 0.0,
        device: torch.device | str = "cpu",
        path: Path | None = None,
    ) -> None:
        self.shape, self.dtype, self.ragged, self.fill, self.path = tuple(shape), dtype, ragged, fill, path
        self.counts = counts if ragged else torch.ones_like(counts)
        self.starts = self.counts.cumsum(0) - self.counts
        self.device = torch.device(device)
        self.buffer: Tensor | None = None

    @property
    def numbers(self) -> int:
        return int(self.counts.sum()) * max(1, torch.Size(self.shape).numel())

    @property
    def nbytes(self) -> int:
        return self.numbers * self.dtype.itemsize

    def write(self, rows: Sequence[int], tensor: Tensor, real: Bool[Tensor, "batch position"]) -> None:
        """Store what a batch has for its examples."""
        parts = tensor.flatten(0, 1)[_flat(real, tensor.device)] if self.ragged else tensor
        self._open()[self._index(rows)] = parts.detach().to(self.device)

    def read(self, rows: Sequence[int], real: Bool[Tensor, "batch position"], device: torch.device | str) -> Tensor:
        """Return what was stored for some examples, over the positions of the batch they now stand in."""
        parts = self._open()[self._index(rows)].to(device)
        if not self.ragged:
            return parts
        if bool(real.all()):
            return parts.view(*real.shape, *self.shape)
        made = torch.full((real.numel(), *self.shape), self.fill, dtype=self.dtype, device=device)
        made[_flat(real, device)] = parts
        return made.view(*real.shape, *self.shape)

    def close(self) -> None:
        """Forget everything, and the file."""
        self.buffer = None
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _open(self) -> Tensor:
        if self.buffer is None:
            if self.path is None:
                flat = torch.empty(self.numbers, dtype=self.dtype, device=self.device)
            else:
                flat = torch.from_file(str(self.path), shared=True, size=self.numbers, dtype=self.dtype)
            self.buffer = flat.view(-1, *self.shape)
        return self.buffer

    def _index(self, rows: Sequence[int]) -> Int[Tensor, " entry"]:
        chosen = torch.as_tensor(rows)
        starts, counts = self.starts[chosen], self.counts[chosen]
        if not self.ragged:
            return starts.to(self.device)
        ends = counts.cumsum(0)
        offset = torch.arange(int(ends[-1])) - (ends - counts).repeat_interleave(counts)
        return (starts.repeat_interleave(counts) + offset).to(self.device)


def _flat(real: Bool[Tensor, "batch position"], device: torch.device | str) -> Int[Tensor, " entry"]:
    """Return the places of the real positions in a batch laid out in one line; `real` is on the host."""
    return real.flatten().nonzero().flatten().to(device)
