"""One step, which is the whole idea: look at the model, let the gates vote, run the model again without what they
dropped, compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from ..gates.votes import Votes
from ..masking.mask import run_copies, run_masked
from ..models.adapter import Adapter
from ..models.sites import States, capture
from ..objective.lagrangian import Index
from ..objective.objective import Loss, Objective
from ..tasks.task import Task
from ..types import Batch, Prediction, split_prediction


@runtime_checkable
class Voting(Protocol):
    """What a step needs of a probe: its votes, and where and by what it masks."""

    def votes(self, reading: Mapping[str, Tensor], depths: Sequence[int]) -> list[Votes]: ...

    def site_name(self, depth: int) -> str: ...

    def baseline(self, depth: int) -> Tensor | None: ...


@dataclass(frozen=True)
class Look:
    """What one original pass tells: the states at every site, and the prediction to preserve."""

    model: Adapter
    task: Task
    batch: Batch
    states: States
    original: Prediction

    def masked_at(self, site_name: str, keep: Tensor, baseline: Tensor | None) -> Prediction:
        """Predict again with only what `keep` keeps at a site."""
        output = run_masked(self.model, self.batch, self.states, site_name, keep, baseline)
        return self.task.read(output, self.batch)

    def masked_by(self, probe: Voting, depth: int, keep: Tensor) -> Prediction:
        """Predict again with only what `keep` keeps, where and as the probe masks at `depth`."""
        return self.masked_at(probe.site_name(depth), keep, probe.baseline(depth))

    def masked_each(self, probe: Voting, depths: Sequence[int], keeps: Sequence[Tensor]) -> list[Prediction]:
        """Predict again with the mask of each depth; depths that mask the same site share one pass."""
        sites = {probe.site_name(depth) for depth in depths}
        if len(depths) == 1 or len(sites) > 1:
            return [self.masked_by(probe, depth, keep) for depth, keep in zip(depths, keeps, strict=True)]
        copies, baseline = self.batch.repeat(len(depths)), probe.baseline(depths[0])
        output = run_copies(self.model, copies, self.states, sites.pop(), torch.stack(list(keeps)), baseline)
        return split_prediction(self.task.read(output, copies), len(depths))

    @cached_property
    def reading(self) -> Mapping[str, Tensor]:
        """What a gate may read at each site: the state of its unit, and of the position where the answer is given."""
        return {name: self._read(self.states[name]) for name in self.model.sites.names}

    def _read(self, state: Float[Tensor, "batch position hidden"]) -> Float[Tensor, "batch unit read"]:
        units = self.batch.pool(state)
        if self.batch.ask is None:
            return units
        asked = state[torch.arange(len(state), device=state.device), self.batch.ask].unsqueeze(1)
        return torch.cat([units, asked.expand_as(units)], dim=-1)


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
    depths: Sequence[int],
    *,
    progress: Sequence[float],
    generator: torch.Generator,
    index: Index | None = None,
) -> list[Loss]:
    """Let the gates of each depth vote on what was seen, drop what they close, and weigh what that changed.

    `progress` says how far each depth has come; `index` whose λ it is: the depth's, unless every example has one.
    """
    votes = probe.votes(seen.reading, depths)
    gates = [vote.sample(generator) for vote in votes]
    masked = seen.masked_each(probe, depths, [gate.prod(0) for gate in gates])
    losses = []
    for depth, share, vote, gate, prediction in zip(depths, progress, votes, gates, masked, strict=True):
        divergence = objective.divergence(seen.original, prediction)
        blamed = vote.gate.credit(divergence, gate, vote.logits, seen.batch.valid)
        losses.append(objective(blamed, vote, seen.batch.valid, depth if index is None else index, share))
    return losses
