"""What a step of a fit costs: against a plain forward pass, and its memory against fine-tuning."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from diffmask.gates.probe import Probe
from diffmask.gates.votes import Votes
from diffmask.objective.objective import Objective
from diffmask.training.cache import Cache
from diffmask.training.fit import Fit
from diffmask.training.optimizer import OPTIMIZERS
from diffmask.training.step import Look, look, step

from .alive import Name, held_bytes, most_bytes
from .clock import ratios
from .subjects import BATCH, LARGE, Subject, minilm

WEIGHTS, GATES, STATES = "weights", "gates", "states kept for the masked pass"
SAVED, GRADIENTS = "activations saved for the backward pass", "gradients"


def unnamed(kind: str) -> None:
    """Let what a step makes have no name."""


@dataclass(frozen=True)
class Voters:
    """A probe that says when its gates begin and end to vote."""

    probe: Probe
    name: Name

    def votes(self, reading: Mapping[str, Tensor], depths: Sequence[int]) -> list[Votes]:
        self.name(GATES)
        found = self.probe.votes(reading, depths)
        self.name(SAVED)
        return found

    def site_name(self, depth: int) -> str:
        return self.probe.site_name(depth)

    def baseline(self, depth: int) -> Tensor | None:
        return self.probe.baseline(depth)


def optimizer_of(fitted: Fit) -> torch.optim.Optimizer:
    """Make the optimiser of a fit, with a rate at which nothing moves far."""
    made: torch.optim.Optimizer = OPTIMIZERS.get(fitted.config.optimizer)(fitted.probe.parameters(), lr=1e-5)
    return made


def one_step(
    subject: Subject,
    fitted: Fit,
    depth: int,
    cache: Cache | None = None,
    size: int = BATCH,
    optimizer: torch.optim.Optimizer | None = None,
) -> Callable[..., None]:
    """Return one whole training step at one depth: look, vote, mask, run again, backward, update.

    The step names what it makes, for whoever counts its memory.
    """
    probe: Probe = fitted.probe
    objective = Objective(fitted.config.objective, probe.depth_count).to(subject.model.device)
    updates = optimizer or optimizer_of(fitted)
    rows, device = [row % BATCH for row in range(size)], subject.model.device
    batch = subject.task.collate(rows)
    noise = torch.Generator(device).manual_seed(0)

    def run(name: Name = unnamed) -> None:
        name(STATES)
        seen: Look = (
            look(subject.model, subject.task, batch.to(device)) if cache is None else cache.look(rows, batch, depth)
        )
        updates.zero_grad()
        voters = Voters(probe, name)
        (loss,) = step(seen, voters, objective, [depth], progress=[0.5], generator=noise, spend=True)
        name(GRADIENTS)
        torch.autograd.backward(loss.total)
        name(GATES)
        updates.step()

    return run


def steps(device: str, repeats: int) -> list[dict[str, Any]]:
    """Compare steps of both kinds of probe, with and without a cache, with a plain forward pass."""
    sizes = {"": BATCH} if device == "cpu" else {"": BATCH, f", batch {LARGE}": LARGE}
    return [row for label, size in sizes.items() for row in _steps(minilm(device), repeats, label, size)]


def _steps(subject: Subject, repeats: int, label: str, size: int) -> list[dict[str, Any]]:
    last, batch = len(subject.model.sites) - 1, subject.batch(size)
    with subject.model.frozen():
        cache = Cache(subject.model, subject.task, "memory", 4 << 30, subject.model.device)
        cache.look(list(range(BATCH)), subject.task.collate(range(BATCH)), last)

        @torch.no_grad()
        def plain() -> None:
            subject.model(batch)

        # One probe at a time, as in a fit: beside many others, the host's memory is scattered, and a step slower.
        found = {}
        for kind, depths in (("input", [last]), ("hidden", range(last + 1))):
            for depth in depths:
                for name, known in (("", None), (", cached", cache)):
                    run = one_step(subject, subject.fit(kind=kind), depth, known, size)
                    measure = f"{kind}, depth {depth}{name}{label}"
                    found |= ratios({measure: run}, plain, repeats)
    return [{"part": "step", "model": subject.name, "measure": measure, **each} for measure, each in found.items()]


def step_summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the cost of an input step, and of a hidden step on average over depths, with and without a cache."""
    found: dict[str, float] = {}
    for kind in ("input", "hidden"):
        for suffix, known in (("", False), ("_cached", True)):
            some = [
                row["ratio"]
                for row in rows
                if row["part"] == "step"
                and row["measure"].startswith(kind)
                and row["measure"].endswith(", cached") == known
                and "batch" not in row["measure"]
            ]
            if some:
                found[f"{kind}_step{suffix}"] = statistics.mean(some)
    return found


def memory(device: str) -> list[dict[str, Any]]:
    """Compare the most memory a fit step needs with what a step of fine-tuning the same model needs, and say for what.

    Of what a step holds at its peak there is a row for each kind, where the device does not count for itself.
    """
    found = {name: _peak(device, name) for name in ("fine-tuning", "input", "hidden", "input, recomputed")}
    base = found["fine-tuning"].total()
    rows = [(name, peak.total()) for name, peak in found.items() if name != "fine-tuning"]
    if device == "cpu":
        rows += [(f"{name}: {kind}", size) for name, peak in found.items() for kind, size in peak.most_common()]
    return [
        {"part": "memory", "model": "MiniLM", "measure": name, "ratio": size / base, "bytes": size, "fine_tuning": base}
        for name, size in rows
    ]


def _peak(device: str, name: str) -> Counter[str]:
    """Return the most bytes that were in tensors, less those of what was measured before."""
    before = Counter({"all": held_bytes()})
    found = _whole_peak(device, name)
    found.subtract(before)
    return +found


def _whole_peak(device: str, name: str) -> Counter[str]:
    subject = minilm(device)
    if name == "fine-tuning":
        return _fine_tuning(subject)
    fitted, last = subject.fit(kind=name.split(",")[0]), len(subject.model.sites) - 1
    with subject.model.frozen(), subject.model.recomputing("recomputed" in name):
        optimizer = optimizer_of(fitted)
        run = one_step(subject, fitted, last if name.startswith("input") else 0, optimizer=optimizer)
        run()  # makes the optimiser's state
        gates = [*fitted.probe.state_dict().values(), *states_of(optimizer)]
        return most_bytes(run, {WEIGHTS: subject.model.model.state_dict().values(), GATES: gates})


def states_of(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """List the tensors an optimiser keeps between two steps."""
    return [value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]


def _fine_tuning(subject: Subject) -> Counter[str]:
    """Return the most bytes of a step that trains the model itself; the step before makes the optimiser's state."""
    model, batch = subject.model.model, subject.batch()
    optimizer = torch.optim.AdamW(model.parameters())
    labels = batch.inputs["input_ids"][:, 0] % 5

    def run(name: Name = unnamed) -> None:
        name(SAVED)
        model.train()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(**batch.inputs).logits, labels)
        name(GRADIENTS)
        loss.backward()
        optimizer.step()

    run()
    return most_bytes(run, {WEIGHTS: model.state_dict().values(), "the optimiser's state": states_of(optimizer)})
