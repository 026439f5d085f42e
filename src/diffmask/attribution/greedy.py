"""Greedy erasure: take unit after unit away, each time the one that is missed least, as long as the prediction stays.

With a beam of several sets, that many of the best are followed at every size. It takes n²/2 passes of one row where the
exact search takes 2ⁿ, and may stop early: where two units cancel out, neither can go first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..errors import SettingError
from ..masking.mask import run_copies
from ..models.sites import States
from ..objective.divergence import agreement, divergence
from ..training.step import Look, look
from ..types import Batch, Prediction
from .method import Method, Question

Removed = tuple[int, ...]  # units in the order in which they went
TIE, TINY = 1e-4, 1e-6  # harms that differ by less, in parts or in nats, count as equal: the first unit goes


@dataclass(frozen=True)
class GreedyErasure(Method):
    """1 for the units of the set that is left, and below 1 what went: the r-th of n units to go has r / n."""

    margin: Annotated[
        float, "largest divergence of a set that keeps the prediction; inf asks for the decision alone"
    ] = 0.1
    measure: Annotated[str, "of the divergence"] = "kl"
    beam: Annotated[int, "sets followed at every size"] = 1
    smallest: Annotated[int, "size at which the search ends; an attribution needs at least one unit"] = 1
    batch_size: Annotated[int, "sets tried in one forward pass"] = 256

    def __post_init__(self) -> None:
        for name in ("beam", "smallest", "batch_size"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} of greedy erasure must be at least 1, got {getattr(self, name)}")

    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        valid = question.batch.valid
        scores, counts = valid.float(), valid.sum(1).tolist()
        for row, removed in enumerate(self.removed(question)):
            for number, unit in enumerate(removed, 1):
                scores[row, unit] = number / counts[row]
        return scores

    def keep(self, question: Question) -> Bool[Tensor, "batch unit"]:
        """Return the units that are left."""
        return self(question) == 1

    @torch.no_grad()
    def removed(self, question: Question) -> list[Removed]:
        """Return the units of each example that can go, in the order in which they went."""
        units = [row.nonzero().flatten().tolist() for row in question.batch.valid]
        best: dict[int, list[Removed]] = {row: [()] for row in range(len(units))}
        with question.model.frozen():
            seen, active = look(question.model, question.task, question.batch), best
            while tried := self._next(active, units):
                harms = self._harms(seen, question, tried)
                active = {row: found for row, found in self._best(tried, harms).items() if found}
                best = {**best, **active}
        return [best[row][0] for row in range(len(units))]

    def _next(self, active: dict[int, list[Removed]], units: Sequence[Sequence[int]]) -> list[tuple[int, Removed]]:
        """List every set with one unit less, each once, with the example it is of."""
        tried: dict[tuple[int, frozenset[int]], Removed] = {}
        for row, beam in active.items():
            for removed in beam:
                if len(units[row]) - len(removed) > self.smallest:
                    for unit in (unit for unit in units[row] if unit not in removed):
                        tried.setdefault((row, frozenset((*removed, unit))), (*removed, unit))
        return [(row, removed) for (row, _), removed in tried.items()]

    def _harms(self, seen: Look, question: Question, tried: Sequence[tuple[int, Removed]]) -> list[float]:
        """Return how far the prediction moves without each of the sets, inf where that is too far."""
        device, found = seen.batch.valid.device, []
        rows = torch.tensor([row for row, _ in tried], device=device)
        gone = torch.tensor([removed for _, removed in tried], device=device)  # (set, unit that went)
        for part in range(0, len(tried), self.batch_size):
            chunk = slice(part, part + self.batch_size)
            found.append(self._harm(seen, question, rows[chunk], gone[chunk]))
        return [float(harm) for harm in torch.cat(found).tolist()]

    def _harm(
        self, seen: Look, question: Question, rows: Int[Tensor, " set"], gone: Int[Tensor, "set went"]
    ) -> Float[Tensor, " set"]:
        batch, name = take(seen.batch, rows), question.site_name
        states = States(seen.states.sites)
        states[name] = seen.states[name][rows]
        keep = batch.valid.scatter(1, gone, False)
        output = run_copies(seen.model, batch, states, name, keep.unsqueeze(0), question.baseline)
        masked, original = seen.task.read(output, batch), take_prediction(seen.original, rows)
        moved = divergence(original, masked, self.measure)
        holds = (moved <= self.margin) & (agreement(original, masked) == 1)
        return torch.where(holds, moved.clamp_min(0), torch.inf)

    def _best(self, tried: Sequence[tuple[int, Removed]], harms: Sequence[float]) -> dict[int, list[Removed]]:
        """Return the least harmful sets of each example, the first where several are alike."""
        left: dict[int, list[tuple[Removed, float]]] = {}
        for (row, removed), harm in zip(tried, harms, strict=True):
            left.setdefault(row, []).append((removed, harm))
        return {row: least_harmful(sets, self.beam) for row, sets in left.items()}


def least_harmful(sets: Sequence[tuple[Removed, float]], count: int) -> list[Removed]:
    """Pick the sets that harm least, one after the other.

    A tie must not be decided by rounding, which depends on what else is in a pass.
    """
    left, chosen = [pair for pair in sets if pair[1] < torch.inf], list[Removed]()
    while left and len(chosen) < count:
        least = min(harm for _, harm in left)
        pick = next(pair for pair in left if pair[1] <= least * (1 + TIE) + TINY)
        left.remove(pick)
        chosen.append(pick[0])
    return chosen


def take(batch: Batch, rows: Int[Tensor, " row"]) -> Batch:
    """Make a batch of some examples of another, each as often as it is named."""

    def some(tensor: Tensor) -> Tensor:
        return tensor[rows] if tensor.dim() and len(tensor) == len(batch) else tensor

    inputs = {name: some(value) if isinstance(value, Tensor) else value for name, value in batch.inputs.items()}
    others = (None if tensor is None else some(tensor) for tensor in (batch.place, batch.ask))
    return Batch(inputs, some(batch.valid), *others)


def take_prediction(prediction: Prediction, rows: Int[Tensor, " row"]) -> Prediction:
    """Return the prediction for some examples, each as often as it is named."""
    reals = {name: None if head.real is None else head.real[rows] for name, head in prediction.items()}
    return {name: replace(head, raw=head.raw[rows], real=reals[name]) for name, head in prediction.items()}
