"""How good a probe is without noise: thresholded masks at every depth, on examples it was not fitted on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..gates.probe import Probe
from ..gates.votes import kept
from ..models.adapter import Adapter
from ..objective.divergence import agreement
from ..objective.objective import Objective, ObjectiveConfig
from ..objective.sparsity import mean_over_units
from ..tasks.task import Task
from ..types import Batch, check_finite, join_predictions
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


def validation_batches(task: Task, limit: int, size: int, device: torch.device | str) -> Iterator[Batch]:
    """Yield the first `limit` validation examples, those of like length together: padding costs as much as text."""
    some = task.validation[:limit]
    lengths = task.lengths(some)
    if lengths is not None:
        some = [some[row] for row in sorted(range(len(some)), key=lengths.__getitem__)]
    return in_batches(task, some, max(64, size), device)


@torch.no_grad()
def validate(
    model: Adapter,
    task: Task,
    probe: Probe,
    objective: Objective,
    batches: Iterator[Batch],
    processes: Processes | None = None,
) -> list[DepthScore]:
    """Measure the thresholded mask of every depth, with one original pass per batch; processes share the batches.

    Not those of a sharded model: all take part in each of its passes, and one that had fewer would let the others wait.
    """
    depths = range(probe.depth_count)
    parts: list[Float[Tensor, "score depth batch"]] = []
    processes = None if model.sharded else processes
    for batch in batches if processes is None else processes.mine(batches):
        seen = look(model, task, batch)
        check_finite(seen.original)
        log_keep = torch.stack([vote.log_keep() for vote in probe.votes(seen.reading, depths)])
        keep = kept(log_keep) & batch.valid
        masked = seen.masked_together(probe, depths, keep)
        original = join_predictions([seen.original] * len(depths))
        changed = [measure(original, masked).view(len(depths), -1) for measure in (objective.divergence, agreement)]
        shares = [mean_over_units(share, batch.valid) for share in (log_keep.exp(), keep)]
        parts.append(torch.stack([*shares, *changed]))
    if processes is not None and processes.count > 1:
        parts = list(processes.all_of([part.cpu() for part in parts]))
    means = torch.cat(parts, dim=-1).mean(-1)
    return [DepthScore(depth, *scores) for depth, scores in enumerate(means.T.tolist())]
