"""Run a fitted probe over examples and keep what it said and what that did, by one threshold and cut for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..explaining.certify import constraint_of, smallest_that_holds
from ..explaining.chunks import chunks
from ..objective.divergence import divergence
from ..training.fit import Fit
from ..training.step import look
from ..types import Batch, decisions


@dataclass(frozen=True)
class Probed:
    """How likely each unit of each example is kept at each depth, and what masking changed there."""

    probability: Sequence[Float[Tensor, "depth _"]]  # (depth, unit); examples differ in length
    divergence: Float[Tensor, "depth example"]
    original: Mapping[str, Tensor]
    masked: Mapping[str, Tensor]

    @property
    def kept(self) -> list[Bool[Tensor, "depth _"]]:
        return [probability > 0.5 for probability in self.probability]

    @property
    def share_masked(self) -> Float[Tensor, "depth example"]:
        return torch.stack([1 - kept.float().mean(1) for kept in self.kept], dim=1)

    @property
    def agreement(self) -> Float[Tensor, "depth example"]:
        """Return which share of the decisions stayed the same: 1 or 0, or a half where one of start and end moved."""
        return torch.stack([self.masked[name] == self.original[name] for name in self.original]).float().mean(0)


@torch.no_grad()
def probe_examples(
    fitted: Fit, examples: Sequence[Any], batch_size: int = 64, depths: Sequence[int] | None = None
) -> Probed:
    """Explain and verify every example at every depth, or at some, in batches of like length."""
    chosen = range(fitted.probe.depth_count) if depths is None else depths
    lengths = fitted.task.lengths(examples) or [0] * len(examples)
    order = sorted(range(len(examples)), key=lengths.__getitem__)
    parts: list[tuple[int, tuple[Any, ...]]] = []
    with fitted.model.frozen():
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            parts += zip(rows, _probe_batch(fitted, [examples[row] for row in rows], chosen), strict=True)
    probability, changed, original, masked = zip(
        *(found for _, found in sorted(parts, key=lambda p: p[0])), strict=True
    )
    return Probed(
        probability,
        torch.stack(changed, dim=1),
        {name: torch.stack([row[name] for row in original]) for name in original[0]},
        {name: torch.stack([row[name] for row in masked], dim=1) for name in masked[0]},
    )


def _probe_batch(fitted: Fit, examples: Sequence[Any], depths: Sequence[int]) -> list[tuple[Any, ...]]:
    batch, probe = fitted.task.collate(examples).to(fitted.model.device), fitted.probe
    seen = look(fitted.model, fitted.task, batch)
    votes = probe.votes(seen.reading, depths)
    predictions = seen.masked_each(probe, depths, [vote.hard_keep() & batch.valid for vote in votes])
    measure = fitted.config.objective.divergence
    changed = torch.stack([divergence(seen.original, found, measure) for found in predictions], dim=1).cpu()
    kept = torch.stack([vote.keep_probability() for vote in votes], dim=1).cpu()
    original = {name: found.cpu() for name, found in decisions(seen.original).items()}
    masked = {name: torch.stack([decisions(p)[name] for p in predictions], dim=1).cpu() for name in original}
    valid = batch.valid.cpu()
    return [
        (
            kept[row][:, valid[row]],
            changed[row],
            {name: found[row] for name, found in original.items()},
            {name: found[row] for name, found in masked.items()},
        )
        for row in range(len(examples))
    ]


@dataclass(frozen=True)
class Certified:
    """What is kept of each example at each depth when its own prediction has to hold, and what that changed."""

    kept: Sequence[Bool[Tensor, "depth _"]]  # (depth, unit); examples differ in length
    divergence: Float[Tensor, "depth example"]
    decided: Mapping[str, Tensor]  # (depth, example, …)

    @property
    def share_masked(self) -> Float[Tensor, "depth example"]:
        return torch.stack([1 - kept.float().mean(1) for kept in self.kept], dim=1)


@torch.no_grad()
def certify_examples(fitted: Fit, examples: Sequence[Any], batch_size: int = 64) -> Certified:
    """Cut every depth's order for each example alone, where margin and decision just hold."""
    parts: dict[int, tuple[Any, ...]] = {}
    with fitted.model.frozen():
        for chunk, batch in chunks(fitted, examples, batch_size):
            parts |= dict(zip(chunk.rows, _certify_batch(fitted, batch), strict=True))
    kept, changed, decided = zip(*(parts[row] for row in range(len(examples))), strict=True)
    answers = {name: torch.stack([row[name] for row in decided], dim=1) for name in decided[0]}
    return Certified(kept, torch.stack(changed, dim=1), answers)


def _certify_batch(fitted: Fit, batch: Batch) -> list[tuple[Any, ...]]:
    seen, constraint = look(fitted.model, fitted.task, batch), constraint_of(fitted, decision=True)
    scores = fitted.probe.log_keep(seen.reading)
    found = [
        smallest_that_holds(fitted, seen, depth, score, constraint, fewer=True) for depth, score in enumerate(scores)
    ]
    kept, valid = torch.stack([each.kept for each in found], dim=1).cpu(), batch.valid.cpu()
    changed = torch.stack([each.divergence for each in found], dim=1).cpu()
    answers = [decisions(each.masked) for each in found]
    decided = {name: torch.stack([each[name] for each in answers], dim=1).cpu() for name in answers[0]}
    return [
        (kept[row][:, valid[row]], changed[row], {name: each[row] for name, each in decided.items()})
        for row in range(len(batch))
    ]
