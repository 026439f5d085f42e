"""Find, by structure, what the last block of a model reads: its first norm, or what enters it."""

from __future__ import annotations

import torch

from ..types import Batch
from .adapter import Adapter
from .sites import Site, capture, trace
from .structure import blocks_beside


@torch.no_grad()
def read_by_last_block(model: Adapter, batch: Batch) -> Site | None:
    """Return the output of the norm that a block begins with, or where it begins otherwise, its input.

    A norm is a module that calls itself one, whatever its kind; the block begins with it if it is given what enters
    the block. None: the model has no blocks.
    """
    blocks = blocks_beside(model.model, [])
    if not blocks:
        return None
    block = blocks[-1].module
    entry = Site("last block:input", block, "input")
    norms = [Site(name, module, "input") for name, module in block.named_modules() if "norm" in _kind(module)]
    first = next(iter(trace(norms, lambda: model(batch))), None) if norms else None
    if first is None:
        return entry
    with capture([entry, first]) as states:
        model(batch)
    given, entering = states[first.name], states[entry.name]
    begins = given.shape == entering.shape and torch.equal(given, entering)
    return Site(f"last block: {first.name}", first.module) if begins else entry


def _kind(module: torch.nn.Module) -> str:
    return type(module).__name__.lower()
