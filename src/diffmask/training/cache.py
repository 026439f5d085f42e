"""Remember the original pass of every training example: the model is frozen, so it says the same each time.

With the states, a step starts at the masked site and computes nothing before it. If they are larger than the budget,
only the predictions are remembered, and the original pass ends at the deepest site that a step reads. Where an example
is never the same twice (augmentation), or its answer cannot be told from its batch mates', nothing is remembered.
"""

from __future__ import annotations

import logging
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shutil import disk_usage
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from ..models.adapter import Adapter
from ..models.packing import pick_tensor, put_tensor
from ..models.sites import Site, States
from ..tasks.task import Task
from ..types import Batch, Bernoulli, Categorical, Value
from .rows import Places, Rows, find_places, marks_of
from .step import Look, look

log = logging.getLogger(__name__)

Head = Categorical | Bernoulli | Value
BEFORE = " (before)"  # marks what stands before the state of a site
# How much of the largest number in a state may be rounding, by what it was computed in.
ALIKE: Mapping[torch.dtype | None, float] = defaultdict(lambda: 1e-3, {torch.bfloat16: 0.1, torch.float16: 0.02})
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


class Unfit(Exception):
    """Says why something cannot be remembered."""


class Cache:
    """What was seen of the training examples so far.

    Processes that hold parts of one model take part in each of its passes: `agree` says whether all of them know what
    this one knows, since one that left a pass out would let the others wait forever.
    """

    def __init__(
        self,
        model: Adapter,
        task: Task,
        mode: str,
        budget: int,
        device: torch.device,
        place: Path | None = None,
        agree: Callable[[bool], bool] = bool,
    ) -> None:
        self.model, self.task, self.mode, self.device, self.agree = model, task, mode, device, agree
        self.folder = tempfile.TemporaryDirectory(dir=place, prefix="diffmask-cache-") if mode == "disk" else None
        self.known = torch.zeros(len(task.train), dtype=torch.bool)
        self.marks = np.zeros(len(task.train), np.int64)
        self.heads: dict[str, tuple[Head, dict[str, Rows]]] = {}
        self.states: dict[str, Rows] = {}
        self.templates: dict[str, Any] = {}
        self.made = 0
        try:
            self._plan(budget)
        except Unfit as reason:
            self._give_up(str(reason))
        if not agree(bool(self.heads)):
            self.close()
        elif not agree(bool(self.states)):
            self.states = {}

    def look(self, rows: Sequence[int], batch: Batch, deepest: int) -> Look:
        """Look at training examples, a batch of which is on the host, as far up as `deepest`, if not known yet."""
        moved = batch.pin().to(self.device) if self.device.type == "cuda" else batch.to(self.device)
        places = self._places(rows, batch) if self.heads else None
        known = places is not None and bool(self.known[torch.as_tensor(rows)].all())
        if not self.agree(known) or places is None:
            seen = look(self.model, self.task, moved)
            return seen if places is None else self._remember(rows, places, seen)
        original = {name: self._head(name, places) for name in self.heads}
        if self.states:
            return Look(self.model, self.task, moved, Remembered(self, places), original)
        return look(self.model, self.task, moved, original, self.model.sites[deepest])

    def _places(self, rows: Sequence[int], batch: Batch) -> Places | None:
        """Find examples in the tables; if they are not what they were, there is no use in remembering."""
        chosen, real = torch.as_tensor(rows), self._real(batch)
        if real.sum(1).tolist() != self.counts[chosen].tolist():
            self._give_up("the task's lengths are not the numbers of positions of its examples")
            return None
        inputs = (value for value in batch.inputs.values() if isinstance(value, Tensor))
        marks, index = marks_of(inputs, real, self.padded), np.asarray(rows)
        if bool((self.known[chosen] & torch.from_numpy(self.marks[index] != marks)).any()):
            self._give_up("the task makes another input of the same example each time")
            return None
        self.marks[index] = marks
        return find_places(self.counts, rows, real).on(torch.device("cpu") if self.folder else self.device)

    def _give_up(self, reason: str) -> None:
        log.warning("the original passes are not remembered: %s", reason)
        self.close()

    def close(self) -> None:
        """Give memory and disk back."""
        for rows in (*self.states.values(), *(part for _, parts in self.heads.values() for part in parts.values())):
            rows.close()
        self.heads, self.states = {}, {}
        if self.folder is not None:
            self.folder.cleanup()

    def _plan(self, budget: int) -> None:
        """Find out from a short and a long example what is per position, and whether all of it fits."""
        if self.task.augments:
            raise Unfit("the task draws its batches at random")
        lengths = self.task.lengths(self.task.train)
        order = sorted(range(len(self.task.train)), key=(lengths or range(len(self.task.train))).__getitem__)
        rows = list(dict.fromkeys([order[0], order[-1]]))
        short, batch = self._collate([order[0]]), self._collate(rows)
        self.padded = lengths is not None
        self.counts = counts = torch.tensor(lengths or [batch.shape[1]] * len(self.task.train))
        # First of all: of processes that share a model, each has to run it as often as the others.
        one, both = (look(self.model, self.task, b.to(self.device)) for b in (short, batch))
        self._check_repeats([order[0]], short)
        self._check_repeats(rows, batch)
        self._check_alone(one, both, self._real(short), self._real(batch))
        self._plan_heads(counts, one, both, self._real(batch))
        size = sum(part.nbytes for _, parts in self.heads.values() for part in parts.values())
        limit = f"cache_budget ({_bytes(budget)})"
        if self.folder is not None and (free := disk_usage(self.folder.name).free) < budget:
            budget, limit = free, f"is free on its disk ({_bytes(free)})"
        if size > budget:
            raise Unfit(f"the predictions alone take {_bytes(size)}, more than {limit}")
        self._plan_states(counts, both)
        size += sum(rows.nbytes for rows in self.states.values())
        if size > budget:
            log.warning(
                "the states of %d examples take %s, more than %s: only predictions are remembered",
                *(len(counts), _bytes(size), limit),
            )
            self.states = {}

    def _real(self, batch: Batch) -> Bool[Tensor, "batch position"]:
        """Say which positions are no padding, as the model is told, or else which are units."""
        mask = batch.inputs.get("attention_mask")
        if not self.padded:  # every batch is as wide as any other
            return torch.ones(batch.shape, dtype=torch.bool)
        if isinstance(mask, Tensor) and mask.shape == batch.shape:
            return mask.bool()
        return batch.valid if batch.place is None else torch.ones(batch.shape, dtype=torch.bool)

    def _collate(self, rows: list[int]) -> Batch:
        return self.task.collate([self.task.train[row] for row in rows])

    def _check_repeats(self, rows: list[int], one: Batch) -> None:
        """Make a batch again: what differs was drawn at random."""
        other = self._collate(rows)
        for name, value in one.inputs.items():
            if isinstance(value, Tensor) and not torch.equal(value, other.inputs[name]):
                raise Unfit(f"the task makes another '{name}' of the same example each time")

    def _check_alone(self, one: Look, both: Look, short: Tensor, real: Bool[Tensor, "batch position"]) -> None:
        """Refuse a model that sees another example where there is padding, e.g. by counting positions from the left."""
        name = self.model.sites.names[-1]
        alone, within = one.states[name][short.to(self.device)], both.states[name][:1][real[:1].to(self.device)]
        rough = max(ALIKE[alone.dtype], ALIKE[self.model.precision])  # a float32 may hold what was computed in less
        near = rough * alone.float().abs().max()
        if bool(((alone.float() - within.float()).abs() > near).any()):
            raise Unfit("what the model makes of an example depends on the padding of its batch")

    def _plan_heads(self, counts: Tensor, one: Look, both: Look, real: Bool[Tensor, "batch position"]) -> None:
        width = both.batch.shape[1]
        for name, head in both.original.items():
            raw, less = head.raw, one.original[name].raw
            ragged = raw.shape[1:] != less.shape[1:] or head.real is not None
            if ragged and (raw.shape[1] != width or raw.shape[2:] != less.shape[2:]):
                raise Unfit(f"the shape of output '{name}' changes with the batch, from {less.shape} to {raw.shape}")
            fill = 0.0 if head.real is not None else -torch.inf
            if ragged and bool((raw[~real.to(raw.device)] != fill).any()) and head.real is None:
                raise Unfit(f"output '{name}' has an answer at every position, padding included")
            parts = {"raw": self._rows(counts, raw, ragged, fill)}
            if head.real is not None:
                parts["real"] = self._rows(counts, head.real, True)
            self.heads[name] = head, parts

    def _plan_states(self, counts: Tensor, seen: Look) -> None:
        for site in (site for site in seen.states.sites if site.name in seen.states):
            whole = seen.states.outputs.get(site.name)
            if _tensors(whole) > 1:
                log.warning("site '%s' gives more than a state: only predictions are remembered", site.name)
                self.states = {}
                return
            self.templates[site.name] = whole
            for name, tensor, unprefixed in _parts(site, seen.states):
                # A block that is passed by, and no site, does not say that [CLS] stands before its units.
                ragged = unprefixed and tensor.shape[1] == seen.batch.shape[1]
                self.states[name] = self._rows(counts, tensor, ragged)

    def _rows(self, counts: Tensor, tensor: Tensor, ragged: bool, fill: float = 0.0) -> Rows:
        self.made += 1
        path = None if self.folder is None else Path(self.folder.name) / f"{self.made}.bin"
        device = self.device if path is None else "cpu"
        return Rows(counts, tensor.shape[2 if ragged else 1 :], tensor.dtype, ragged, fill, device, path)

    def _remember(self, rows: Sequence[int], places: Places, seen: Look) -> Look:
        self.known[torch.as_tensor(rows)] = True
        for name, (_, parts) in self.heads.items():
            for field, table in parts.items():
                table.write(places, getattr(seen.original[name], field))
        for site in (site for site in seen.states.sites if site.name in self.states):
            for name, tensor, _ in _parts(site, seen.states):
                self.states[name].write(places, tensor)
        return seen

    def _head(self, name: str, places: Places) -> Head:
        head, parts = self.heads[name]
        return replace(head, **{field: table.read(places, self.device) for field, table in parts.items()})


class Remembered(States):
    """States that are read back when they are asked for, and not before."""

    def __init__(self, cache: Cache, places: Places) -> None:
        names = [name for name in cache.templates if name in cache.states]
        by_name = {site.name: site for site in (*cache.model.passed, *cache.model.sites)}
        super().__init__([by_name[name] for name in names], copied=bool(cache.model.in_place))
        self.cache, self.places = cache, places
        self.outputs = Outputs(self)

    def __missing__(self, name: str) -> Tensor:
        site = next((site for site in self.sites if site.name == name), None)
        if site is None:
            return super().__missing__(name)
        tensor = self._read(name)
        if site.side == "output":
            self.outputs[name] = put_tensor(site, self.cache.templates[name], tensor)
            self[name] = site.state_of(site.turned(tensor))
        else:
            self[name] = tensor
        if site.prefix:
            self.prefixes[name] = tensor[:, : site.prefix] if site.side == "output" else self._read(f"{name}{BEFORE}")
        return self[name]

    def up_to(self, site: Site) -> list[Site]:
        names = [known.name for known in self.sites]
        return list(self.sites[: names.index(site.name) + 1])

    def _read(self, name: str) -> Tensor:
        return self.cache.states[name].read(self.places, self.cache.device)


class Outputs(dict[str, Any]):
    """Whole outputs, made when they are asked for."""

    def __init__(self, states: Remembered) -> None:
        super().__init__()
        self.states = states

    def __missing__(self, name: str) -> Any:
        self.states[name]
        return self[name]


def _parts(site: Site, states: States) -> list[tuple[str, Tensor, bool]]:
    """Return what has to be stored of a site, by name, and whether it is per position."""
    ragged = site.layout != "grid" and not site.prefix
    if site.side == "output":
        return [(site.name, pick_tensor(site, states.outputs[site.name]), ragged)]
    before = [(f"{site.name}{BEFORE}", states.prefixes[site.name], False)] if site.prefix else []
    return [(site.name, states[site.name], ragged), *before]


def _tensors(whole: Any) -> int:
    """Count the tensors in what a module gave."""
    if isinstance(whole, Tensor):
        return 1
    if isinstance(whole, dict):
        return sum(map(_tensors, whole.values()))
    return sum(map(_tensors, whole)) if isinstance(whole, list | tuple) else int(whole is not None)


def _bytes(count: int) -> str:
    name, size = next(((n, s) for n, s in reversed(UNITS.items()) if count >= s), ("bytes", 1))
    return f"{count / size:.3g} {name}"
