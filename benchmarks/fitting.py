"""What a step of a fit costs: against a plain forward pass, and its memory against fine-tuning."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch

from diffmask.gates.probe import Probe
from diffmask.objective.objective import Objective
from diffmask.training.cache import Cache
from diffmask.training.fit import Fit
from diffmask.training.optimizer import OPTIMIZERS
from diffmask.training.step import Look, look, step

from .alive import held_bytes, most_bytes
from .clock import ratios
from .subjects import BATCH, LARGE, Subject, minilm


def one_step(
    subject: Subject, fitted: Fit, depth: int, cache: Cache | None = None, size: int = BATCH
) -> Callable[[], None]:
    """Return one whole training step at one depth: look, vote, mask, run again, backward, update."""
    probe: Probe = fitted.probe
    objective = Objective(fitted.config.objective, probe.depth_count).to(subject.model.device)
    optimizer = OPTIMIZERS.get(fitted.config.optimizer)(probe.parameters(), lr=1e-5)
    rows, device = [row % BATCH for row in range(size)], subject.model.device
    batch = subject.task.collate(rows)
    noise = torch.Generator(device).manual_seed(0)

    def run() -> None:
        seen: Look = (
            look(subject.model, subject.task, batch.to(device)) if cache is None else cache.look(rows, batch, depth)
        )
        (loss,) = step(seen, probe, objective, [depth], progress=[0.5], generator=noise, spend=True)
        optimizer.zero_grad()
        torch.autograd.backward(loss.total)
        optimizer.step()

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
        runs = {
            f"{kind}, depth {depth}{name}{label}": one_step(subject, subject.fit(kind=kind), depth, known, size)
            for kind, depths in (("input", [last]), ("hidden", range(last + 1)))
            for depth in depths
            for name, known in (("", None), (", cached", cache))
        }

        @torch.no_grad()
        def plain() -> None:
            subject.model(batch)

        found = ratios(runs, plain, repeats)
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
    """Compare the most memory a fit step needs with what a step of fine-tuning the same model needs."""
    found = {name: _peak(device, name) for name in ("fine-tuning", "input", "hidden", "input, recomputed")}
    base = found.pop("fine-tuning")
    return [
        {"part": "memory", "model": "MiniLM", "measure": name, "ratio": peak / base, "bytes": peak, "fine_tuning": base}
        for name, peak in found.items()
    ]


def _peak(device: str, name: str) -> int:
    """Return the most bytes that were in tensors, less those of what was measured before."""
    before = held_bytes()
    return _whole_peak(device, name) - before


def _whole_peak(device: str, name: str) -> int:
    subject = minilm(device)
    if name == "fine-tuning":
        model, batch = subject.model.model, subject.batch()
        optimizer = torch.optim.AdamW(model.parameters())

        def run() -> None:
            model.train()
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(
                model(**batch.inputs).logits, batch.inputs["input_ids"][:, 0] % 5
            ).backward()
            optimizer.step()

        return _most(run, model, optimizer)
    fitted, last = subject.fit(kind=name.split(",")[0]), len(subject.model.sites) - 1
    with subject.model.frozen(), subject.model.recomputing("recomputed" in name):
        run_step = one_step(subject, fitted, last if name.startswith("input") else 0)
        return _most(run_step, subject.model.model, fitted.probe)


def _most(run: Callable[[], None], *alive: Any) -> int:
    """Return the most bytes in tensors during the second run: the first makes the optimiser's state."""
    run()
    tensors = [
        tensor for module in alive if isinstance(module, torch.nn.Module) for tensor in module.state_dict().values()
    ]
    states = [value for each in alive if isinstance(each, torch.optim.Optimizer) for value in each.state.values()]
    return most_bytes(run, [*tensors, *(t for state in states for t in state.values())])
