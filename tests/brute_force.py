"""The truth found the slow way: run the model on every set of units and compare."""

from __future__ import annotations

from itertools import product

import torch

from diffmask.objective.divergence import agreement, divergence
from diffmask.training.step import look
from diffmask.types import counted


@torch.no_grad()
def all_sets(model, task, example, site, baseline):
    """Return every set of the units of one example, the model's raw answer to it, and whether it keeps the answer."""
    batch = task.collate([example])
    units = batch.valid[0].nonzero().flatten().tolist()
    sets = torch.tensor(list(product([False, True], repeat=len(units))))
    keep = torch.zeros(len(sets), batch.valid.shape[1], dtype=torch.bool)
    keep[:, units] = sets
    seen = look(model, task, batch.repeat(len(sets)))
    masked = seen.masked_at(site, keep, baseline)
    (head,) = masked.values()
    far = divergence(seen.original, masked)
    return units, keep, counted(head).reshape(len(sets), -1), far, agreement(seen.original, masked) == 1


def relevant_units(units, answers, tolerance=1e-3):
    """Return the units with and without which some set of the others gives two different answers."""
    cube = answers.reshape(*[2] * len(units), -1)  # one axis per unit: gone, kept
    found = set()
    for axis, unit in enumerate(units):
        gone, kept = cube.unbind(axis)
        if float((gone - kept).abs().max()) > tolerance:
            found.add(unit)
    return found


def minimal_sufficient(keep, holds):
    """Return the sets that keep the answer and none of whose own subsets does, by comparing all pairs."""
    sets = [frozenset(row.nonzero().flatten().tolist()) for row, good in zip(keep, holds, strict=True) if good]
    return {one for one in sets if not any(other < one for other in sets)}
