"""Where a fit starts: what is usual at each site, a baseline that means "nothing", a constraint that can be met."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
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
from .step import Look, look

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Survey:
    """The mean and spread of the states at each site, in forward order."""

    means: Sequence[Float[Tensor, " _"]]
    stds: Sequence[Float[Tensor, " _"]]

    @property
    def widths(self) -> list[int]:
        return [len(mean) for mean in self.means]


def survey(model: Adapter, task: Task, batches: Iterable[Batch]) -> Survey:
    """Look at the states of some batches, and refuse a model whose output or states cannot be used."""
    sums: dict[str, Tensor] = {}
    for batch in batches:
        seen = look(model, task, batch)
        check_finite(seen.original)
        _check_order(model, seen)
        for name in model.sites.names:
            units = _units(name, seen.states[name], batch).double()
            parts = torch.stack([torch.ones_like(units[0]) * len(units), units.sum(0), (units**2).sum(0)])
            sums[name] = sums[name] + parts if name in sums else parts
    counts, totals, squares = zip(*sums.values(), strict=True)
    means = [total / count for total, count in zip(totals, counts, strict=True)]
    spread = zip(squares, counts, means, strict=True)
    stds = [(square / count - mean**2).clamp_min(0).sqrt() for square, count, mean in spread]
    return Survey([mean.float() for mean in means], [std.float() for std in stds])


def _check_order(model: Adapter, seen: Look) -> None:
    reached = [name for name in seen.states if name in model.sites.names]
    if reached != list(model.sites.names):
        raise SiteError(f"sites must be listed in the order the model reaches them, which is {', '.join(reached)}")


def _units(name: str, state: Tensor, batch: Batch) -> Float[Tensor, "unit hidden"]:
    if state.dim() != 3 or state.shape[:2] != batch.valid.shape:
        raise SiteError(
            f"site '{name}' holds a state of shape {tuple(state.shape)}, but a batch of {len(batch)} examples with "
            f"{batch.valid.shape[1]} units needs ({len(batch)}, {batch.valid.shape[1]}, hidden): name another site, "
            "or let the model put the batch first"
        )
    return state[batch.valid]


def place_baselines(
    model: Adapter, task: Task, probe: Probe, objective: Objective, found: Survey, batches: Iterator[Batch], seed: int
) -> None:
    """Put each baseline where its settings say it starts."""
    config = probe.config.baseline
    for number in range(len(probe.baselines.vectors)):
        probe.baselines.set(number, _first_guess(model, config, found, probe.masked_indices[number]))
    if config.start == "ablation":
        fit_baselines(model, task, probe, objective, found, batches, seed)


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


def fit_baselines(
    model: Adapter, task: Task, probe: Probe, objective: Objective, found: Survey, batches: Iterator[Batch], seed: int
) -> None:
    """Move each baseline to where replacing *random* units changes the prediction least (Li & Janson 2024).

    A baseline that is free while gates learn has false optima: it becomes one of the things to be masked, and only that
    is masked. Fitted to random masks there is nothing for it to become, so it settles where it carries no evidence.
    """
    config, sites = probe.config.baseline, probe.masked_indices
    vectors = [vector.detach().clone().requires_grad_(True) for vector in probe.baselines.vectors]
    rates = [config.ablation_rate * float(found.stds[site].mean()) for site in sites[: len(vectors)]]
    optimizer = torch.optim.Adam([{"params": [v], "lr": rate} for v, rate in zip(vectors, rates, strict=True)])
    for number in range(config.ablation_steps):
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * (1 - number / config.ablation_steps)
        seen = look(model, task, next(batches))
        keep = random_keep(seen.batch, generator(seed, ABLATION, number, seen.batch.valid.device))
        optimizer.zero_grad()
        for vector, site in zip(vectors, sites, strict=False):
            masked = seen.masked_at(probe.site_names[site], keep, vector)
            torch.autograd.backward(objective.divergence(seen.original, masked).mean())
        optimizer.step()
    for number, vector in enumerate(vectors):
        probe.baselines.set(number, vector)


def random_keep(batch: Batch, draw: torch.Generator) -> Float[Tensor, "batch unit"]:
    """Keep each unit with a probability drawn per example, so that every size of mask occurs."""
    device = batch.valid.device
    share = torch.rand(len(batch), 1, generator=draw, device=device)
    return (torch.rand(batch.valid.shape, generator=draw, device=device) < share).float()


@torch.no_grad()
def measure_start(
    model: Adapter, task: Task, probe: Probe, objective: Objective, batches: Iterable[Batch], seed: int
) -> None:
    """Check that the constraint can be met at every depth, and note the levels from which it is tightened."""
    rows: list[list[list[Tensor]]] = [[] for _ in range(probe.depth_count)]
    for number, batch in enumerate(batches):
        seen = look(model, task, batch)
        for depth in range(probe.depth_count):
            draw = generator(seed, NOISE, number, batch.valid.device)
            rows[depth].append(_three_levels(seen, probe, objective, depth, draw))
    for depth, parts in enumerate(rows):
        opened, started, closed = (float(torch.cat(column).mean()) for column in zip(*parts, strict=True))
        if objective.config.form == "margin":
            _check_feasible(probe.site_name(depth), objective.config.margin, opened, closed)
        objective.start[depth] = started if objective.config.form == "margin" else probe.config.start_open


def _three_levels(seen: Look, probe: Probe, objective: Objective, depth: int, draw: torch.Generator) -> list[Tensor]:
    """Measure the divergence with everything kept, with the gates as they start, and with nothing kept."""
    everything = torch.ones(seen.batch.valid.shape, device=seen.batch.valid.device)
    keeps = (everything, probe(seen.states, depth).sample(draw).prod(0), 0 * everything)
    return [objective.divergence(seen.original, seen.masked_by(probe, depth, keep)) for keep in keeps]


def _check_feasible(site: str, margin: float, opened: float, closed: float) -> None:
    if not opened <= margin:
        raise InfeasibleError(
            f"margin {margin} cannot be met at site '{site}': with every unit kept the prediction already moves by "
            f"{opened:.3g}. The model does not repeat itself (dropout, noise, low precision): fix that, or use a "
            f"margin well above {opened:.3g}"
        )
    if opened > margin / 4:
        log.warning("site '%s': with every unit kept the prediction moves by %.3g of margin %g", site, opened, margin)
    if closed <= margin:
        log.warning("site '%s': with every unit replaced it moves by %.3g, within margin %g", site, closed, margin)
