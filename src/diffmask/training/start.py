"""Where a fit starts: what is usual at each site, a baseline that means "nothing", a constraint that can be met."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..errors import InfeasibleError, SettingError, SiteError
from ..gates.baseline import BaselineConfig
from ..gates.probe import Probe
from ..models.adapter import Adapter
from ..objective.objective import Objective
from ..tasks.task import Task
from ..types import Batch, check_finite
from .random import ABLATION, NOISE, generator
from .step import Look, check_gradient, look

log = logging.getLogger(__name__)

RARE = 8  # as many states at a position count as much as the mean of all


@dataclass(frozen=True)
class Survey:
    """The mean and spread of the states at each site in forward order, and of what gates read there.

    `offsets` say how far the mean at each position is from the mean of all.
    """

    means: Sequence[Float[Tensor, " _"]]
    stds: Sequence[Float[Tensor, " _"]]
    offsets: Sequence[Float[Tensor, "position _"]]
    read_means: Sequence[Float[Tensor, " _"]]
    read_stds: Sequence[Float[Tensor, " _"]]

    @property
    def widths(self) -> list[int]:
        return [len(mean) for mean in self.means]

    @property
    def read_widths(self) -> list[int]:
        return [len(mean) for mean in self.read_means]


def survey(model: Adapter, task: Task, batches: Iterable[Batch]) -> Survey:
    """Look at the states of some batches, and refuse a model whose output or states cannot be used."""
    states, readings = (dict[str, Moments]() for _ in range(2))
    places: dict[str, PositionSums] = {}
    for batch in batches:
        seen = look(model, task, batch)
        check_finite(seen.original)
        _check_order(model, seen)
        for name in model.sites.names:
            _check_shape(name, seen.states[name], batch)
            gated = batch.spread(torch.zeros_like(batch.valid)) == 0
            states.setdefault(name, Moments()).add(seen.states[name][gated])
            places.setdefault(name, PositionSums()).add(seen.states[name], gated, batch.order)
            readings.setdefault(name, Moments()).add(seen.reading[name][batch.valid])
    means, stds = zip(*(moments.mean_and_std() for moments in states.values()), strict=True)
    offsets = [place.offsets(mean) for place, mean in zip(places.values(), means, strict=True)]
    read_means, read_stds = zip(*(moments.mean_and_std() for moments in readings.values()), strict=True)
    return Survey(means, stds, offsets, read_means, read_stds)


class Moments:
    """Adds up what is needed for a mean and a spread, in double precision."""

    def __init__(self) -> None:
        self.sums: Tensor | None = None

    def add(self, rows: Float[Tensor, "row hidden"]) -> None:
        wide = rows.double()
        parts = torch.stack([torch.ones_like(wide[0]) * len(wide), wide.sum(0), (wide**2).sum(0)])
        self.sums = parts if self.sums is None else self.sums + parts

    def mean_and_std(self) -> tuple[Float[Tensor, " hidden"], Float[Tensor, " hidden"]]:
        assert self.sums is not None  # a survey has at least one batch
        count, total, square = self.sums
        mean = total / count
        return mean.float(), (square / count - mean**2).clamp_min(0).sqrt().float()


class PositionSums:
    """Adds up states position by position; the last column counts them."""

    def __init__(self) -> None:
        self.sums: Tensor | None = None

    def add(
        self,
        state: Float[Tensor, "batch position hidden"],
        gated: Bool[Tensor, "batch position"],
        order: Int[Tensor, "batch position"],
    ) -> None:
        """Add the gated states, each to the sum of its position."""
        rows = torch.cat([state[gated], torch.ones_like(state[gated][:, :1])], dim=1).double()
        before = rows[:0] if self.sums is None else self.sums
        longer = rows.new_zeros(max(len(before), state.shape[1]), rows.shape[1])
        longer[: len(before)] = before
        self.sums = longer.index_add(0, order[gated], rows)

    def offsets(self, mean: Float[Tensor, " hidden"]) -> Float[Tensor, "position hidden"]:
        """Return how far each position's mean is from `mean`; what was seen rarely stays near it."""
        assert self.sums is not None  # a survey has at least one batch
        total, count = self.sums[:, :-1], self.sums[:, -1:]
        return ((total - count * mean) / (count + RARE)).float()


def _check_order(model: Adapter, seen: Look) -> None:
    reached = [name for name in seen.states if name in model.sites.names]
    if reached != list(model.sites.names):
        raise SiteError(f"sites must be listed in the order the model reaches them, which is {', '.join(reached)}")


def _check_shape(name: str, state: Tensor, batch: Batch) -> None:
    if state.dim() == 3 and state.shape[:2] == batch.shape:
        return
    hint = "let the model put the batch first"
    if state.dim() == 3 and len(state) == len(batch) and state.shape[1] > batch.shape[1]:
        hint = f"if the model lengthens texts to whole windows, let the task do it, pad_to={state.shape[1]}"
    if state.dim() == 3 and state.shape[:2] == batch.shape[::-1]:
        hint = "let adapt see that time comes first there, adapt(model, tokenizer) or adapt(model, example=batch)"
    raise SiteError(
        f"site '{name}' holds a state of shape {tuple(state.shape)}, but a batch of {len(batch)} examples with "
        f"{batch.shape[1]} units needs ({len(batch)}, {batch.shape[1]}, hidden): name another site, or {hint}"
    )


def place_baselines(
    model: Adapter, task: Task, probe: Probe, objective: Objective, found: Survey, batches: Iterator[Batch], seed: int
) -> None:
    """Put each baseline where its settings say it starts."""
    config = probe.config.baseline
    for number in range(len(probe.baselines.vectors)):
        probe.baselines.set(number, _first_guess(model, config, found, probe.masked_indices[number], seed))
    for number, site in enumerate(probe.masked_indices[: len(probe.baselines.offsets)]):
        probe.baselines.set_offsets(number, found.offsets[site])
    if config.start == "ablation" and len(probe.baselines.vectors):
        fit_baselines(model, task, probe, objective, found, batches, seed)


def _first_guess(
    model: Adapter, config: BaselineConfig, found: Survey, site: int, seed: int
) -> Float[Tensor, " hidden"]:
    if config.start == "zero":
        return torch.zeros_like(found.means[site])
    if config.start == "noise":
        width = len(found.means[site])
        return torch.randn(width, generator=generator(seed, ABLATION, site)).to(found.means[site]) / width**0.5
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
        for vector, offsets, site in zip(vectors, probe.baselines.offsets, sites, strict=False):
            stand_in = vector + offsets if len(offsets) > 1 else vector
            masked = seen.masked_at(probe.site_names[site], keep, stand_in)
            distances = objective.divergence(seen.original, masked)
            check_gradient(model, distances)
            if distances.requires_grad:  # else nobody reads what leaves this site
                torch.autograd.backward(distances.mean())
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
        ends: dict[str, list[Tensor]] = {}  # with everything and with nothing kept, at each site that is masked
        for depth, votes in enumerate(probe.votes(seen.reading, range(probe.depth_count))):
            site, everything = probe.site_name(depth), torch.ones(batch.valid.shape, device=batch.valid.device)
            if site not in ends:
                ends[site] = [_level(seen, probe, objective, depth, keep) for keep in (everything, 0 * everything)]
            keep = votes.sample(generator(seed, NOISE, number, batch.valid.device)).prod(0)
            everything_kept, nothing_kept = ends[site]
            rows[depth].append([everything_kept, _level(seen, probe, objective, depth, keep), nothing_kept])
    for depth, parts in enumerate(rows):
        opened, started, closed = (float(torch.cat(column).mean()) for column in zip(*parts, strict=True))
        first = probe.site_name(depth) not in map(probe.site_name, range(depth))  # say it once per site
        if objective.config.form == "margin" and first:
            _check_feasible(probe.site_name(depth), objective.config.margin, opened, closed)
        objective.start[depth] = _first_level(objective, started, closed, probe.config.start_open)


def _first_level(objective: Objective, started: float, closed: float, start_open: float) -> float:
    """Return the level from which the constraint is tightened.

    One at which everything may be dropped forbids nothing, and gates that are all closed do not come back.
    """
    if objective.config.form == "rate":
        return start_open
    return min(started, objective.config.loosest * closed) if objective.config.loosest else started


def _level(seen: Look, probe: Probe, objective: Objective, depth: int, keep: Tensor) -> Float[Tensor, " batch"]:
    """Measure the divergence with what `keep` keeps."""
    return objective.divergence(seen.original, seen.masked_by(probe, depth, keep))


def _check_feasible(site: str, margin: float, opened: float, closed: float) -> None:
    if not opened <= margin:
        raise InfeasibleError(
            f"margin {margin} cannot be met at site '{site}': with every unit kept the prediction already moves by "
            f"{opened:.3g}. The model does not repeat itself (dropout, noise, low precision), or, with removal = "
            "knockout, does not attend as its mask says: fix that, use removal = baseline, or a margin well above "
            f"{opened:.3g}"
        )
    if opened > margin / 4:
        log.warning("site '%s': with every unit kept the prediction moves by %.3g of margin %g", site, opened, margin)
    if closed <= margin:
        log.warning(
            "site '%s': with every unit replaced the prediction moves by %.3g, within margin %g, so that nothing needs "
            "to be kept: lower the margin if you expect otherwise",
            *(site, closed, margin),
        )
