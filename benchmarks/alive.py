"""How many bytes are in tensors at most while something runs, and what for, on a device that does not count them."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Alive(TorchDispatchMode):
    """Adds up the memory of every tensor that is made, and takes it off again when it goes.

    What is made counts as of the kind that is named at that time; `at_most` holds the bytes of each kind when there
    were most of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kind, self.now, self.at_most = "", Counter[str](), Counter[str]()
        self.known: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        self.add((leaf for leaf in tree_leaves(made) if isinstance(leaf, Tensor)), self.kind)
        return made

    def add(self, tensors: Iterable[Tensor], kind: str) -> None:
        """Count tensors that are there already, or were made just now."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            key, size = storage._cdata, storage.nbytes()
            if key not in self.known:
                self.known[key] = weakref.ref(storage, lambda _, gone=(key, kind, size): self._gone(*gone))
                self.now[kind] += size
        if self.now.total() > self.at_most.total():
            self.at_most = Counter(self.now)

    def _gone(self, key: int, kind: str, size: int) -> None:
        self.known.pop(key, None)
        self.now[kind] -= size


Name = Callable[[str], None]  # says of what kind the tensors are that are made from now on


def most_bytes(run: Callable[[Name], object], alive: Mapping[str, Iterable[Tensor]]) -> Counter[str]:
    """Return the most bytes in tensors while `run` runs, by kind, with those that are there before and stay.

    A GPU counts its bytes itself, and all of them as of one kind.
    """
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
        run(lambda _: None)
        return Counter({"all": int(torch.cuda.max_memory_allocated())})
    count = Alive()
    for kind, tensors in alive.items():
        count.add(tensors, kind)
    with count:
        run(partial(setattr, count, "kind"))
    return count.at_most


def held_bytes() -> int:
    """Return the bytes a GPU holds for tensors that others left there, and for the libraries that multiply matrices."""
    if not torch.cuda.is_available():
        return 0
    gc.collect()
    torch.zeros(8, 8, device="cuda") @ torch.zeros(8, 8, device="cuda")  # cuBLAS takes its memory at the first product
    return int(torch.cuda.memory_allocated())
