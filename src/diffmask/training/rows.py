"""A table of tensors, one row per example, in memory or in a file that is mapped into it.

What an example has per position (*ragged*) is stored without its padding, and laid out again over the positions of
whatever batch it comes in; everything else has one shape for all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

COMPARED = 4096  # numbers of an input without positions, such as an image, by which it is known again
# Whole numbers with the same bytes. They have half the bits of their weights, so that the highest of them counts, too.
WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int32, 16: torch.int32}


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

    It is a sum of their numbers, each times a weight of its place (modulo 2⁶⁴), for the whole batch at once: row by
    row, this would take longer than the pass of a small model that it is there to save. Of a padded batch, tensors that
    are not per position are left alone: their size may be that of the padding.
    """
    marks, counted = np.zeros(len(real), np.int64), real.numpy()
    places = (counted.cumsum(1) - 1).clip(0)
    for number, tensor in enumerate(each for each in inputs if each.dim() and len(each) == len(real)):
        words = tensor.detach().contiguous().view(WORDS[tensor.element_size()])
        if tensor.shape[:2] == real.shape:
            found = _here(words.reshape(*real.shape, -1))
            weights = _weights(number, places.shape[1] * found.shape[2]).reshape(-1, found.shape[2])[places]
            marks += np.where(counted[..., None], found * weights, 0).sum((1, 2))
        elif not padded or tensor.dim() == 1:
            flat = words.reshape(len(real), -1)  # where it is: a task may hold its images on a GPU
            some = _here(flat[:, :: flat.shape[1] // COMPARED | 1])  # odd: both halves of a number have their turn
            marks += (some * _weights(number, some.shape[1])).sum(1)
    return marks


def _here(words: Tensor) -> NDArray[np.int64]:
    """Return whole numbers on the host, where most of them are already."""
    found: NDArray[np.int64] = (words if words.device.type == "cpu" else words.cpu()).numpy().astype(np.int64)
    return found


def _weights(number: int, count: int) -> Int[NDArray[np.int64], " count"]:
    """Return the weights of the places of a tensor; those of a wider batch begin with the same."""
    return _drawn(number, 1 << count.bit_length())[:count]


@lru_cache(maxsize=64)
def _drawn(number: int, count: int) -> Int[NDArray[np.int64], " count"]:
    words: NDArray[np.uint64] = np.random.default_rng(number).bit_generator.random_raw(count)  # one after the other
    return words.view(np.int64) | 1  # an odd weight loses nothing of a number


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
