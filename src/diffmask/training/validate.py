"""How good a probe is without noise: thresholded masks at every depth, on examples it was not fitted on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..gates.probe import Probe
from ..models.adapter import Adapter
from ..objective.divergence import agreement
from ..objective.objective import Objective, ObjectiveConfig
from ..objective.sparsity import expected_l0, mean_over_units
from ..tasks.task import Task
from ..types import Batch, check_finite
from .processes import Processes
from .step import look


@dataclass(frozen=True)
class DepthScore:
    """A probe at one depth: the share it expects to keep, what its thresholded mask keeps, and what that changes."""

    depth: int
    expected_kept: float
    kept: float
    divergence: float
    agreement: float

    def feasible(self, config: ObjectiveConfig) -> bool:
        if config.form == "margin":
            return self.divergence <= config.margin
        return self.kept <= config.rate + 0.02

    def cost(self, config: ObjectiveConfig) -> float:
        return self.expected_kept if config.form == "margin" else self.divergence


def in_batches(task: Task, examples: Sequence[object], size: int, device: torch.device | str) -> Iterator[Batch]:
    """Yield the examples in order, batch by batch."""
    for start in range(0, len(examples), size):
        yield task.collate(examples[start : start + size]).to(device)


@torch.no_grad()
def validate(
    model: Adapter,
    task: Task,
    probe: Probe,
    objective: Objective,
    batches: Iterator[Batch],
    processes: Processes | None = None,
) -> list[DepthScore]:
    """Measure the thresholded mask of every depth, with one original pass per batch; processes share the batches."""
    parts: list[list[list[Tensor]]] = []  # of each batch, of each depth
    for batch in batches if processes is None else processes.mine(batches):
        seen = look(model, task, batch)
        check_finite(seen.original)
        votes = probe.votes(seen.reading, range(probe.depth_count))
        keeps = [vote.hard_keep() & batch.valid for vote in votes]
        masked = seen.masked_each(probe, range(probe.depth_count), keeps)
        parts.append(
            [
                [
                    expected_l0(vote, batch.valid),
                    mean_over_units(keep, batch.valid),
                    objective.divergence(seen.original, prediction),
                    agreement(seen.original, prediction),
                ]
                for vote, keep, prediction in zip(votes, keeps, masked, strict=True)
            ]
        )
    everything = parts if processes is None else processes.all_of(_on_host(parts, processes))
    return [_score(depth, rows) for depth, rows in enumerate(zip(*everything, strict=True))]


def _on_host(parts: list[list[list[Tensor]]], processes: Processes) -> list[list[list[Tensor]]]:
    """Bring what other processes are told to where they can read it."""
    if processes.count == 1:
        return parts
    return [[[tensor.cpu() for tensor in row] for row in rows] for rows in parts]


def _score(depth: int, parts: Sequence[list[Tensor]]) -> DepthScore:
    means = [float(torch.cat(column).mean()) for column in zip(*parts, strict=True)]
    return DepthScore(depth, *means)
