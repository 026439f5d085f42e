"""Where a fit starts: what is usual at each site, a baseline that means "nothing", and a constraint that can be met."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import InfeasibleError, SettingError, SiteError
from ..gates.baseline import BaselineConfig
from ..gates.probe import Probe
from ..models.adapter import Adapter
from ..objective.objective import Objective
from ..tasks.task import Task
from ..types import Batch, check_finite
from .random import ABLATION, NOISE, generator
from .step import Look, look, predict_masked, without

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Survey:
    """The mean and spread of the states at each site, in forward order."""

    means: Sequence[Float[Tensor, " _"]]
    stds: Sequence[Float[Tensor, " _"]]

    @property
    def widths(self) -> list[int]:
        return [len(mean) for mean in self.means]


def survey(model: Adapter, task: Task, batches: Sequence[Batch]) -> Survey:
    """Look at the states of some batches, and refuse a model whose output or states cannot be used."""
    totals: dict[str, list[Tensor]] = {name: [] for name in model.sites.names}
    for batch in batches:
        seen = look(model, task, batch)
        check_finite(seen.original)
        for name in model.sites.names:
            totals[name].append(_units(name, seen.states[name], batch))
    states = [torch.cat(parts).float() for parts in totals.values()]
    return Survey([s.mean(0) for s in states], [s.std(0, unbiased=False) for s in states])


def _units(name: str, state: Tensor, batch: Batch) -> Float[Tensor, "unit hidden"]:
    if state.dim() != 3 or state.shape[:2] != batch.valid.shape:
        raise SiteError(
            f"site '{name}' holds a state of shape {tuple(state.shape)}, but a batch of {len(batch)} examples with "
            f"{batch.valid.shape[1]} units needs ({len(batch)}, {batch.valid.shape[1]}, hidden): name another site"
        )
    return state[batch.valid]


def place_baselines(
    model: Adapter,
    task: Task,
    probe: Probe,
    objective: Objective,
    found: Survey,
    batches: Iterator[Batch],
    seed: int,
) -> None:
    """Put each baseline where its settings say it starts."""
    config = probe.config.baseline
    for number, site in enumerate(probe.masked_indices[:1] if config.shared else probe.masked_indices):
        probe.baselines.set(number, _first_guess(model, config, found, site))
        if config.start == "ablation":
            fit_baseline(model, task, probe, objective, found, number, batches, seed)


def _first_guess(model: Adapter, config: BaselineConfig, found: Survey, site: int) -> Float[Tensor, " hidden"]:
    if config.start == "zero":
        return torch.zeros_like(found.means[site])
    if config.start != "token":
        return found.means[site]
    embedding = model.sites[site].module
    if not isinstance(embedding, nn.Embedding) or config.token >= embedding.num_embeddings:
        raise SettingError(
            f"baseline.start = token needs an embedding with an entry {config.token} at site "
            f"'{model.sites[site].name}', which is a {type(embedding).__name__}: use start = mean or ablation there"
        )
    return embedding.weight[config.token].detach().float()


def fit_baseline(
    model: Adapter,
    task: Task,
    probe: Probe,
    objective: Objective,
    found: Survey,
    number: int,
    batches: Iterator[Batch],
    seed: int,
) -> None:
    """Move a baseline to where replacing *random* units changes the prediction least (Li & Janson 2024).

    A baseline that is free while gates learn has false optima: it becomes one of the things to be masked, and only that
    is masked. Fitted to random masks there is nothing for it to become, so it settles where it carries no evidence.
    """
    config, site = probe.config.baseline, probe.masked_indices[number]
    vector = probe.baselines(number).detach().clone().requires_grad_(True)
    rate = config.ablation_rate * float(found.stds[site].mean())
    optimizer = torch.optim.Adam([vector], lr=rate)
    for k in range(config.ablation_steps):
        optimizer.param_groups[0]["lr"] = rate * (1 - k / config.ablation_steps)
        seen = look(model, task, next(batches))
        draw = generator(seed, ABLATION, number * config.ablation_steps + k, vector.device)
        masked = predict_masked(model, task, seen, probe.site_names[site], random_keep(seen.batch, draw), vector)
        optimizer.zero_grad()
        torch.autograd.backward(objective.divergence(seen.original, masked).mean())
        optimizer.step()
    probe.baselines.set(number, vector)


def random_keep(batch: Batch, draw: torch.Generator) -> Float[Tensor, "batch unit"]:
    """Keep each unit with a probability drawn per example, so that every size of mask occurs."""
    like = {"generator": draw, "device": batch.valid.device}
    share = torch.rand(len(batch), 1, **like)  # type: ignore[call-overload]
    return (torch.rand(batch.valid.shape, **like) < share).float()  # type: ignore[call-overload]


@torch.no_grad()
def measure_start(
    model: Adapter,
    task: Task,
    probe: Probe,
    objective: Objective,
    batches: Sequence[Batch],
    depth: int,
    seed: int,
) -> None:
    """Check that the constraint can be met at `depth`, and note the level from which it is tightened."""
    looks = [look(model, task, batch) for batch in batches]
    opened = _mean_divergence(model, task, probe, objective, looks, depth, lambda s: torch.ones(s.batch.valid.shape))
    closed = _mean_divergence(model, task, probe, objective, looks, depth, lambda s: torch.zeros(s.batch.valid.shape))
    site, margin = probe.site_name(depth), objective.config.margin
    if not opened <= margin / 4:
        raise InfeasibleError(
            f"margin {margin} cannot be met at site '{site}': with every unit kept the prediction already moves by "
            f"{opened:.3g}. The model does not repeat itself (dropout, noise, low precision): fix that, or use a "
            f"margin above {4 * opened:.3g}"
        )
    if closed <= margin:
        log.warning(
            "site '%s': with every unit replaced the prediction moves by %.3g ≤ margin %g",
            site,
            closed,
            margin,
        )
    if objective.config.form == "rate":
        objective.start[depth] = probe.config.start_open
        return
    draw = generator(seed, NOISE, 0, looks[0].batch.valid.device)
    start = _mean_divergence(
        model, task, probe, objective, looks, depth, lambda s: probe(s.states, depth).sample(draw).prod(0)
    )
    objective.start[depth] = start


def _mean_divergence(model, task, probe, objective, looks: Sequence[Look], depth: int, keep) -> float:  # type: ignore[no-untyped-def]
    parts = []
    for seen in looks:
        masked = without(model, task, seen, probe, depth, keep(seen).to(seen.batch.valid.device))
        parts.append(objective.divergence(seen.original, masked))
    return float(torch.cat(parts).mean())
