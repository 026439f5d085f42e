"""One step, which is the whole idea: look at the model, let the gates vote, run the model again without what they
dropped, compare."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..errors import ModelError
from ..gates.noise import Part
from ..gates.votes import Votes, span, together
from ..masking.mask import run_copies, run_masked
from ..models.adapter import Adapter
from ..models.sites import Site, States, capture
from ..objective.lagrangian import Index
from ..objective.objective import Loss, Objective
from ..tasks.task import Task
from ..types import Batch, Prediction, join_predictions, split_prediction

CACHED = 4096  # units of a pass: what a CPU computes for more of them has left its caches before it is used


@runtime_checkable
class Voting(Protocol):
    """What a step needs of a probe: its votes, and where and by what it masks."""

    def votes(self, reading: Mapping[str, Tensor], depths: Sequence[int]) -> list[Votes]: ...

    def site_name(self, depth: int) -> str: ...

    def baseline(self, depth: int) -> Tensor | None: ...


class Reading(Mapping[str, Tensor]):
    """What is read at each site, worked out when a gate first asks, and which units are real."""

    def __init__(self, names: Sequence[str], read: Callable[[str], Tensor], valid: Bool[Tensor, "batch unit"]) -> None:
        self.names, self.read, self.valid, self.known = names, read, valid, dict[str, Tensor]()

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
        return split_prediction(self.masked_together(probe, depths, keeps), len(depths))

    def masked_together(self, probe: Voting, depths: Sequence[int], keeps: Sequence[Tensor] | Tensor) -> Prediction:
        """Do the same, and return what is predicted at all depths as one prediction, depth after depth."""
        room = self._room() if len({probe.site_name(depth) for depth in depths}) == 1 else 1
        parts = [slice(first, first + room) for first in range(0, len(depths), room)]
        return join_predictions([self._masked_copies(probe, depths[part], keeps[part]) for part in parts])

    def _room(self) -> int:
        """Say how many copies of the batch a pass takes best; on a GPU, any number."""
        return max(1, CACHED // self.batch.valid.numel()) if self.batch.valid.device.type == "cpu" else sys.maxsize

    def _masked_copies(self, probe: Voting, depths: Sequence[int], keeps: Sequence[Tensor] | Tensor) -> Prediction:
        if len(depths) == 1:
            return self.masked_by(probe, depths[0], keeps[0])
        copies, baseline = self.batch.repeat(len(depths)), probe.baseline(depths[0])
        stacked = keeps if isinstance(keeps, Tensor) else torch.stack(list(keeps))
        output = run_copies(self.model, copies, self.states, probe.site_name(depths[0]), stacked, baseline)
        return self.task.read(output, copies)

    def forget_after(self, site_names: Iterable[str]) -> None:
        """Let go of what was only read: a run from these sites on needs no more than what comes before them."""
        self.__dict__.pop("reading", None)
        self.states.forget_after(self.model.sites[name] for name in site_names)

    @cached_property
    def reading(self) -> Mapping[str, Tensor]:
        """What a gate may read at each site: the state of its unit, and of the position where the answer is given.

        A task of texts with `around` adds the mean of so many units on each side; one of images with ask = "prefix",
        what stands before the patches, such as [CLS], where something does.
        """
        return Reading(self.model.sites.names, self._read, self.batch.valid)

    def _read(self, name: str) -> Float[Tensor, "batch unit read"]:
        state = self.states[name].to(self.batch.valid.device)  # a large model may have it elsewhere
        units, around = self.batch.pool(state), getattr(self.task, "around", 0)
        parts = [units, self.batch.around(units, around)] if around else [units]
        if getattr(self.task, "ask", None) == "prefix" and name in self.states.prefixes:
            parts.append(self.states.prefixes[name].flatten(1).unsqueeze(1))  # (batch, 1, prefix · hidden)
        if self.batch.ask is not None:
            parts.append(state[torch.arange(len(state), device=state.device), self.batch.ask].unsqueeze(1))
        return torch.cat([part.expand(-1, units.shape[1], -1) for part in parts], dim=-1) if parts[1:] else units


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
    spend: bool = False,
) -> list[Loss]:
    """Let the gates of each depth vote on what was seen, drop what they close, and weigh what that changed.

    `progress` says how far each depth has come; `index` whose λ it is: the depth's, unless every example has one. What
    was seen may be `part` of a batch that several processes share. With `spend` states that are not needed after the
    vote are given up: beside what the backward pass needs, those of a whole model are much.
    """
    votes, valid = probe.votes(seen.reading, depths), seen.batch.valid
    if spend:
        seen.forget_after({probe.site_name(depth) for depth in depths})
    noise = [vote.noise(generator, part) for vote in votes]
    several = together(votes) if len(depths) > 1 else None
    if several is not None:
        gate = several.gate.decide(several.logits, torch.stack(noise, dim=1))
        distances = _distances(seen, probe, objective, depths, gate.prod(0)).view(len(depths), -1)
        return objective(distances, several, valid, span(depths), progress).each()
    gates = [vote.gate.decide(vote.logits, draw) for vote, draw in zip(votes, noise, strict=True)]
    distances = _distances(seen, probe, objective, depths, [gate.prod(0) for gate in gates])
    each = distances.chunk(len(depths))
    losses = []
    for depth, share, vote, gate, distance in zip(depths, progress, votes, gates, each, strict=True):
        blamed = vote.gate.credit(distance, gate, vote.logits, valid)
        losses.append(objective(blamed, vote, valid, depth if index is None else index, share))
    return losses


def _distances(
    seen: Look, probe: Voting, objective: Objective, depths: Sequence[int], keeps: Sequence[Tensor] | Tensor
) -> Float[Tensor, " row"]:
    """Return how far the mask of each depth takes the prediction of each example, depth after depth."""
    masked = seen.masked_together(probe, depths, keeps)
    found = objective.divergence(join_predictions([seen.original] * len(depths)), masked)
    if any(keep.requires_grad for keep in keeps):
        check_gradient(seen.model, found)
    return found


def check_gradient(model: Adapter, divergence: Float[Tensor, " row"]) -> None:
    """Refuse a model whose answer changes and does not tell how: gates would close, and nobody would notice.

    Where nobody reads what was replaced, the divergence is 0, and there is nothing to tell.
    """
    if not divergence.requires_grad and torch.is_grad_enabled() and bool((divergence != 0).any()):
        raise ModelError(
            f"no gradient comes back from {type(model.model).__name__}: it computes without one on its way "
            "(torch.no_grad), or decides before it answers. Learn an order of the units, which needs none: "
            'recipe("ranking", start="mean")'
        )
