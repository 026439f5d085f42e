"""How many bytes are in tensors at most while something runs, on a device that does not count them itself."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Alive(TorchDispatchMode):
    """Adds up the memory of every tensor that is made, and takes it off again when it goes."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self.known: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        self.add(leaf for leaf in tree_leaves(made) if isinstance(leaf, Tensor))
        return made

    def add(self, tensors: Iterable[Tensor]) -> None:
        """Count tensors that are there already, or were made just now."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            key, size = storage._cdata, storage.nbytes()
            if key not in self.known:
                self.known[key] = weakref.ref(storage, lambda _, key=key, size=size: self._gone(key, size))
                self.now += size
        self.most = max(self.most, self.now)

    def _gone(self, key: int, size: int) -> None:
        self.known.pop(key, None)
        self.now -= size


def most_bytes(run: Callable[[], object], alive: Iterable[Tensor]) -> int:
    """Return the most bytes in tensors while `run` runs, with those that are there before and stay."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
        run()
        return int(torch.cuda.max_memory_allocated())
    count = Alive()
    count.add(alive)
    with count:
        run()
    return count.most


def held_bytes() -> int:
    """Return the bytes a GPU holds for tensors that others left there, and for the libraries that multiply matrices."""
    if not torch.cuda.is_available():
        return 0
    gc.collect()
    torch.zeros(8, 8, device="cuda") @ torch.zeros(8, 8, device="cuda")  # cuBLAS takes its memory at the first product
    return int(torch.cuda.memory_allocated())
