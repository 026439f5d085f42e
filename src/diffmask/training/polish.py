"""Turn soft scores into a small kept set that was measured to keep the prediction.

First units are added back by score until the set holds. Then the unit that is missed least is dropped, again and again,
and where none can be, two kept units are exchanged for one other, as long as the set holds. Nothing here knows the
smallest set; a set that no such move makes smaller may still be larger than it.

A set of k out of n units costs about k masked runs a drop, and k²/2·(n − k) to see that no exchange is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as change
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..masking.knockout import run_knocked_out
from ..masking.mask import at_positions, mask_state
from ..models.sites import replace
from ..objective.constraint import Constraint
from ..objective.divergence import divergence
from ..types import Batch, Prediction
from .step import Look

ROWS = {"cpu": 512, "cuda": 1 << 16}  # masked examples run at a time


@dataclass(frozen=True)
class Polish:
    """Measures sets of examples that were looked at once, and makes them smaller."""

    seen: Look
    site_name: str
    baseline: Tensor | None
    constraint: Constraint

    @torch.no_grad()
    def __call__(
        self, keep: Bool[Tensor, "batch unit"], scores: Float[Tensor, "batch unit"], exchange: bool = True
    ) -> Bool[Tensor, "batch unit"]:
        """Return a set for each example that keeps its prediction, by moves from `keep`."""
        keep = self.drop(self.add_back(keep & self.seen.batch.valid, scores))
        active = torch.full((len(keep),), exchange, device=keep.device)
        while bool(active.any()):
            smaller = self.exchange(keep, active)
            active = (smaller != keep).any(1)
            keep = self.drop(smaller)
        return keep

    def add_back(
        self, keep: Bool[Tensor, "batch unit"], scores: Float[Tensor, "batch unit"]
    ) -> Bool[Tensor, "batch unit"]:
        """Add the highest-scored unit that is missing to every set that does not hold, until all do or are whole."""
        keep, valid = keep.clone(), self.seen.batch.valid
        rows = torch.arange(len(keep), device=keep.device)
        while len(rows := rows[self.distance(rows, keep[rows]).isinf() & (keep[rows] != valid[rows]).any(1)]):
            missing = scores[rows].masked_fill(keep[rows] | ~valid[rows], -torch.inf)
            keep[rows, missing.argmax(1)] = True
        return keep

    def drop(self, keep: Bool[Tensor, "batch unit"]) -> Bool[Tensor, "batch unit"]:
        """Drop from each set the unit that is missed least, while what is left holds and is not empty."""
        keep = keep.clone()
        active = keep.sum(1) > 1
        while bool(active.any()):
            rows, units = (keep & active.unsqueeze(1)).nonzero().unbind(1)
            without = keep[rows]
            without[torch.arange(len(rows), device=rows.device), units] = False
            costs = torch.full(keep.shape, torch.inf, device=keep.device)
            costs[rows, units] = self.distance(rows, without)
            cost, unit = costs.min(1)
            active = cost.isfinite()
            keep[active, unit[active]] = False
            active = active & (keep.sum(1) > 1)
        return keep

    def exchange(self, keep: Bool[Tensor, "batch unit"], active: Bool[Tensor, " batch"]) -> Bool[Tensor, "batch unit"]:
        """Put one unit in the place of two in each active set where the result holds, the closest one."""
        rows, kept, valid = active.nonzero().flatten().tolist(), keep.cpu(), self.seen.batch.valid.cpu()
        moves = [_moves(kept[row], valid[row]) for row in rows]
        owner = torch.tensor([row for row, some in zip(rows, moves, strict=True) for _ in range(len(some))])
        costs, first = self.distance(owner.long().to(keep.device), torch.cat(moves).to(keep.device)).cpu(), 0
        for row, some in zip(rows, moves, strict=True):
            own = costs[first : first + len(some)]
            if bool(own.isfinite().any()):
                kept[row] = some[own.argmin()]
            first += len(some)
        return kept.to(keep.device)

    def smallest(
        self, keeps: Sequence[Bool[Tensor, "batch unit"]], values: Sequence[Tensor]
    ) -> Float[Tensor, "batch unit"] | Bool[Tensor, "batch unit"]:
        """Return of each example what belongs to its smallest set that holds, to the first of them if several are."""
        rows = torch.arange(len(keeps[0]), device=keeps[0].device)
        far = torch.stack([self.distance(rows, keep) for keep in keeps])
        sizes = torch.stack([keep.sum(1) for keep in keeps]).masked_fill(far.isinf(), keeps[0].shape[1] + 1)
        return torch.stack(list(values))[sizes.argmin(0), rows]

    def distance(self, rows: Int[Tensor, " set"], keep: Bool[Tensor, "set unit"]) -> Float[Tensor, " set"]:
        """Return the divergence that each set causes in its example; infinite where it does not hold."""
        size = ROWS.get(keep.device.type, ROWS["cuda"])
        starts = range(0, len(rows), size)
        parts = [self._distance(rows[start : start + size], keep[start : start + size]) for start in starts]
        return torch.cat(parts) if parts else torch.zeros(0, device=keep.device)

    def _distance(self, rows: Int[Tensor, " set"], keep: Bool[Tensor, "set unit"]) -> Float[Tensor, " set"]:
        seen, batch = self.seen, self.seen.batch.take(rows)
        masked = seen.task.read(self._run(batch, rows, keep), batch)
        original = _take(seen.original, rows)
        far = divergence(original, masked, self.constraint.measure)
        return far.masked_fill(~self.constraint.holds(original, masked), torch.inf)

    def _run(self, batch: Batch, rows: Int[Tensor, " set"], keep: Bool[Tensor, "set unit"]) -> Any:
        model, states = self.seen.model, self.seen.states[self.site_name][rows]
        if self.baseline is None:
            return run_knocked_out(model, batch, keep)
        state = mask_state(states, batch.spread(keep), at_positions(self.baseline, batch))
        with replace(model.sites[self.site_name], state):
            return model(batch)


def _moves(keep: Bool[Tensor, " unit"], valid: Bool[Tensor, " unit"]) -> Bool[Tensor, "move unit"]:
    """Return every set with two units less and one other more."""
    kept, others = keep.nonzero().flatten(), (valid & ~keep).nonzero().flatten()
    pairs = torch.combinations(kept, 2)
    moves = keep.repeat(len(pairs) * len(others), 1)
    rows = torch.arange(len(moves), device=keep.device)
    moves[rows.unsqueeze(1), pairs.repeat_interleave(len(others), 0)] = False
    moves[rows, others.repeat(len(pairs))] = True
    return moves


def _take(prediction: Prediction, rows: Int[Tensor, " row"]) -> Prediction:
    heads = {name: (head, None if head.real is None else head.real[rows]) for name, head in prediction.items()}
    return {name: change(head, raw=head.raw[rows], real=real) for name, (head, real) in heads.items()}
