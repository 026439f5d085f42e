"""One step, which is the whole idea: look at the model, let the gates vote, run the model again without what they
dropped, compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from ..gates.votes import Votes
from ..masking.mask import run_masked
from ..models.adapter import Adapter
from ..models.sites import States, capture
from ..objective.lagrangian import Index
from ..objective.objective import Loss, Objective
from ..tasks.task import Task
from ..types import Batch, Prediction


@runtime_checkable
class Voting(Protocol):
    """What a step needs of a probe: its votes, and where and by what it masks."""

    def __call__(self, states: Mapping[str, Tensor], depth: int) -> Votes: ...

    def site_name(self, depth: int) -> str: ...

    def baseline(self, depth: int) -> Tensor: ...


@dataclass(frozen=True)
class Look:
    """What one original pass tells: the states at every site, and the prediction to preserve."""

    model: Adapter
    task: Task
    batch: Batch
    states: States
    original: Prediction

    def masked_at(self, site_name: str, keep: Tensor, baseline: Tensor) -> Prediction:
        """Predict again with only what `keep` keeps at a site."""
        output = run_masked(self.model, self.batch, self.states, site_name, keep, baseline)
        return self.task.read(output, self.batch)

    def masked_by(self, probe: Voting, depth: int, keep: Tensor) -> Prediction:
        """Predict again with only what `keep` keeps, where and as the probe masks at `depth`."""
        return self.masked_at(probe.site_name(depth), keep, probe.baseline(depth))


def look(model: Adapter, task: Task, batch: Batch) -> Look:
    """Run the model as it is and write down its states."""
    with torch.no_grad(), capture([*model.passed, *model.sites]) as states:
        original = task.read(model(batch), batch)
    states.check_single(model.sites)
    return Look(model, task, batch, states, original)


def step(
    seen: Look,
    probe: Voting,
    objective: Objective,
    depth: int,
    *,
    progress: float,
    generator: torch.Generator,
    index: Index | None = None,
) -> Loss:
    """Let the gates vote on what was seen, drop what they close, and weigh what that changed.

    `index` says whose λ it is: the depth's, unless every example has one.
    """
    votes = probe(seen.states, depth)
    gates = votes.sample(generator)
    masked = seen.masked_by(probe, depth, gates.prod(0))
    divergence = objective.divergence(seen.original, masked)
    divergence = votes.gate.credit(divergence, gates, votes.logits, seen.batch.valid)
    return objective(divergence, votes, seen.batch.valid, depth if index is None else index, progress)
