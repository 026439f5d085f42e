"""A table of tensors, one row per example, in memory or in a file that is mapped into it.

What an example has per position (*ragged*) is stored without its padding, and laid out again over the positions of
whatever batch it comes in; everything else has one shape for all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

COMPARED = 4096  # bytes of an input without positions, such as an image, by which it is known again


@dataclass(frozen=True)
class Places:
    """Where the examples of a batch stand in tables: their rows, and the entry of each position where these count.

    Padding has the entry after the last.
    """

    rows: Int[Tensor, " batch"]
    entries: Int[Tensor, "batch position"]

    def on(self, device: torch.device) -> Places:
        """Bring it to a device; to a GPU it goes while the host works on."""
        both = self.rows, self.entries
        if device.type != "cuda":
            return Places(*(part.to(device) for part in both))
        return Places(*(part.pin_memory().to(device, non_blocking=True) for part in both))


def find_places(counts: Int[Tensor, " example"], rows: Sequence[int], real: Bool[Tensor, "batch position"]) -> Places:
    """Find examples in tables whose rows have as many entries as `counts` says; what is not `real` is padding."""
    chosen, ends = torch.as_tensor(rows), counts.cumsum(0)
    starts = (ends - counts)[chosen].unsqueeze(1)
    return Places(chosen, torch.where(real, starts + real.cumsum(1) - 1, ends[-1]))


def marks_of(
    inputs: Iterable[Tensor], real: Bool[Tensor, "batch position"], padded: bool
) -> Int[NDArray[np.int64], " batch"]:
    """Return a number per example by which its inputs are known again, whatever it is padded to.

    Of a padded batch, tensors that are not per position are left alone: their size may be that of the padding.
    """
    where = real.numpy()
    parts: list[list[bytes]] = [[] for _ in where]
    for tensor in (each for each in inputs if each.dim() and len(each) == len(where)):
        raw = tensor.detach().contiguous().unsqueeze(-1).view(torch.uint8)
        if tensor.shape[:2] == real.shape:
            found = [row[mine] for row, mine in zip(_here(raw), where, strict=True)]
        elif padded and tensor.dim() > 1:
            continue
        else:
            flat = raw.reshape(len(raw), -1)  # where it is: a task may hold its images on a GPU
            found = list(_here(flat[:, :: flat.shape[1] // COMPARED | 1]))  # odd: every byte of a number has its turn
        for part, each in zip(parts, found, strict=True):
            part.append(each.tobytes())
    return np.array([hash(tuple(part)) for part in parts], np.int64)


def _here(raw: Tensor) -> NDArray[np.uint8]:
    """Return bytes on the host, where most of them are already."""
    found: NDArray[np.uint8] = (raw if raw.device.type == "cpu" else raw.cpu()).numpy()
    return found


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
        self.count = int(counts.sum()) if ragged else len(counts)
        self.device = torch.device(device)
        self.buffer: Tensor | None = None

    @property
    def nbytes(self) -> int:
        return self.count * torch.Size(self.shape).numel() * self.dtype.itemsize

    def write(self, places: Places, tensor: Tensor) -> None:
        """Store what a batch has for its examples."""
        table = self._open()
        table[places.entries if self.ragged else places.rows] = tensor.detach().to(table)
        table[-1] = self.fill

    def read(self, places: Places, device: torch.device | str) -> Tensor:
        """Return what was stored for some examples, over the positions of the batch they now stand in."""
        index = places.entries if self.ragged else places.rows
        return self._open().index_select(0, index.flatten()).view(*index.shape, *self.shape).to(device)

    def close(self) -> None:
        """Forget everything, and the file."""
        self.buffer = None
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _open(self) -> Tensor:
        if self.buffer is None:
            size = (self.count + 1) * torch.Size(self.shape).numel()  # the last entry is what padding reads
            if self.path is None:
                flat = torch.empty(size, dtype=self.dtype, device=self.device)
            else:
                flat = torch.from_file(str(self.path), shared=True, size=size, dtype=self.dtype)
                with contextlib.suppress(OSError):  # without its name, it goes with the process, however that ends
                    self.path.unlink()
            self.buffer = flat.view(-1, *self.shape)
        return self.buffer
