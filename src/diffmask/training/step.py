"""One step, which is the whole idea: look at the model, let the gates vote, run the model again without what they
dropped, compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from ..gates.noise import Part
from ..gates.votes import Votes
from ..masking.mask import run_copies, run_masked
from ..models.adapter import Adapter
from ..models.sites import Site, States, capture
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


class Reading(Mapping[str, Tensor]):
    """What is read at each site, worked out when a gate first asks."""

    def __init__(self, names: Sequence[str], read: Callable[[str], Tensor]) -> None:
        self.names, self.read, self.known = names, read, dict[str, Tensor]()

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.known:
            self.known[name] = self.read(name)
        return self.known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


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
        """What a gate may read at each site: the state of its unit, and of the position where the answer is given.

        A task of images with ask = "prefix" adds what stands before the patches, such as [CLS], where something does.
        """
        return Reading(self.model.sites.names, self._read)

    def _read(self, name: str) -> Float[Tensor, "batch unit read"]:
        state = self.states[name].to(self.batch.valid.device)  # a large model may have it elsewhere
        units, prefix = self.batch.pool(state), getattr(self.task, "ask", None) == "prefix"
        if prefix and name in self.states.prefixes:
            before = self.states.prefixes[name].flatten(1).unsqueeze(1)  # (batch, 1, prefix · hidden)
            return torch.cat([units, before.expand(-1, units.shape[1], -1)], dim=-1)
        if self.batch.ask is None:
            return units
        asked = state[torch.arange(len(state), device=state.device), self.batch.ask].unsqueeze(1)
        return torch.cat([units, asked.expand_as(units)], dim=-1)


def look(
    model: Adapter, task: Task, batch: Batch, original: Prediction | None = None, last: Site | None = None
) -> Look:
    """Run the model as it is and write down its states; they are copied only if it goes on in place.

    Where the `original` prediction is known, the pass may end at the `last` site whose state is needed.
    """
    how: Literal["copy", "watch", "both"] = "both" if model.in_place is None else "copy" if model.in_place else "watch"
    found = original or {}
    with torch.no_grad(), capture([*model.passed, *model.sites], how, last) as states:
        output = model(batch)
        found = original or task.read(output, batch)
    states.check_single(model.sites)
    model.in_place = model.in_place or states.overwritten
    if how == "watch" and model.in_place:
        return look(model, task, batch, original, last)
    states.watched.clear()
    return Look(model, task, batch, states, found)


def step(
    seen: Look,
    probe: Voting,
    objective: Objective,
    depths: Sequence[int],
    *,
    progress: Sequence[float],
    generator: torch.Generator,
    index: Index | None = None,
    part: Part | None = None,
) -> list[Loss]:
    """Let the gates of each depth vote on what was seen, drop what they close, and weigh what that changed.

    `progress` says how far each depth has come; `index` whose λ it is: the depth's, unless every example has one. What
    was seen may be `part` of a batch that several processes share.
    """
    votes = probe.votes(seen.reading, depths)
    gates = [vote.sample(generator, part) for vote in votes]
    masked = seen.masked_each(probe, depths, [gate.prod(0) for gate in gates])
    losses = []
    for depth, share, vote, gate, prediction in zip(depths, progress, votes, gates, masked, strict=True):
        divergence = objective.divergence(seen.original, prediction)
        blamed = vote.gate.credit(divergence, gate, vote.logits, seen.batch.valid)
        losses.append(objective(blamed, vote, seen.batch.valid, depth if index is None else index, share))
    return losses
