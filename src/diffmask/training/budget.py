"""Fit a ranking: of two sets of as many units, the one it scores higher should keep the prediction better.

A fitted probe says which units are enough; it does not say which of them matters most. Here two sets S and T of the
same random size are kept in turn, and the scores φ of the units learn by least squares how much better S does:

    loss = E_S,T ( v(S) − v(T) − (Σ_S φ − Σ_T φ) / √n )²        v(S) = log-odds of the decision, from S alone

Sizes are even between one unit and all but one, so what is learned is a unit's mean effect over all budgets: that of
keeping it in small sets, and of removing it from large ones. The model is only run, never differentiated: the gradient
at a hard choice is local and says little about the choice. Every comparison is a new draw, so that there is nothing to
learn by heart. The ranking has a direction: what speaks for the decision comes first, what speaks against it last.
There is no λ, no margin and no collapse; `choose` turns a ranking into the set that holds a margin.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import torch
from accelerate import Accelerator
from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError
from ..gates.baseline import BaselineConfig
from ..gates.budget import draw_pair
from ..gates.probe import Probe, ProbeConfig, make_probe
from ..models.adapter import Adapter
from ..objective.divergence import DIVERGENCES
from ..objective.objective import Objective, ObjectiveConfig
from ..objective.worth import SIGNED, worth
from ..tasks.task import Task
from ..types import Batch, check_finite
from .budget_score import BudgetScore, judge, scores_at
from .fit import check_fit
from .random import NOISE, batch_indices, draw_depths, generator
from .start import Survey, place_baselines, survey
from .step import Look, look
from .validate import in_batches

SURVEY_BATCHES = 16


def _ranking() -> ProbeConfig:
    baseline = BaselineConfig(learned=False, start="mean")
    return ProbeConfig(votes="separate", voter="ranker", hidden=256, start_open=0.5, baseline=baseline)


@dataclass(frozen=True)
class BudgetConfig:
    """How a ranking is found."""

    probe: ProbeConfig = field(default_factory=_ranking)
    measure: Annotated[
        str, "what sets are compared by: log-odds or probability of the decision, which have a direction, or e.g. kl"
    ] = "log-odds"
    most: Annotated[float, "nats beyond which a difference counts no more"] = 5.0
    pairs: Annotated[int, "pairs of sets compared per example and step, from one original pass"] = 4
    steps: Annotated[int, "optimiser steps"] = 2000
    batch_size: Annotated[int, "examples per step"] = 32
    depths: Annotated[tuple[int, ...], "the depths that are fitted, which may count from the end; none: all"] = ()
    depths_per_step: Annotated[int, "of those trained at every step, from one original pass; 0 takes all"] = 0
    learning_rate: Annotated[float, "of the rankers; it rises at first, and falls to 0 over the second half"] = 1e-3
    weight_decay: Annotated[float, "of the rankers, as AdamW has it"] = 0.02
    warmup: Annotated[int, "steps over which the learning rate rises, at most a tenth of all"] = 50
    seed: Annotated[int, "every draw depends on it and on the step alone"] = 0
    validation_limit: Annotated[int, "most examples used to validate"] = 1024

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "learning_rate", "most", "pairs", "validation_limit"):
            if not 0 < getattr(self, name) < math.inf:
                raise SettingError(f"{name} of a budget fit must be positive and finite, got {getattr(self, name)}")
        for name in ("depths_per_step", "weight_decay", "warmup"):
            if not getattr(self, name) >= 0:
                raise SettingError(f"{name} of a budget fit must be 0 or more, got {getattr(self, name)}")
        if self.probe.votes != "separate" or self.probe.voter != "ranker":
            raise SettingError("a budget fit ranks at each depth alone: use votes = separate and voter = ranker")
        if self.measure not in SIGNED:
            DIVERGENCES.get(self.measure)

    def rate(self, number: int) -> float:
        """Return the learning rate of a step."""
        rise = (number + 1) / max(1, min(self.warmup, self.steps // 10))
        return self.learning_rate * min(1.0, rise, 2 * (1 - number / self.steps))


@dataclass(frozen=True)
class BudgetFit:
    """A fitted ranking with what it belongs to; the scores of its probe's rankers are the ranking."""

    model: Adapter
    task: Task
    probe: Probe
    config: BudgetConfig
    scores: list[BudgetScore]
    fingerprint: str


def fit_budget(
    model: Adapter, task: Task, config: BudgetConfig | None = None, beside: Probe | None = None
) -> BudgetFit:
    """Fit a ranking to a frozen model; `beside` is the probe of a fit whose baselines are taken over."""
    settings = config or BudgetConfig()
    check_fit(model, task)
    device, home = Accelerator(mixed_precision="no").device, model.device
    with model.frozen(), model.on(device):
        run = Ranking(model, task, settings, device)
        probe = run.train(run.start(beside))
        scores = run.validate(probe)
    return BudgetFit(model, task, probe.to(home), settings, scores, model.fingerprint)


@dataclass(frozen=True)
class Ranking:
    """The loop, and what it needs at every turn."""

    model: Adapter
    task: Task
    config: BudgetConfig
    device: torch.device

    def start(self, beside: Probe | None) -> Probe:
        """Build the rankers, all of them undecided, and place the baselines."""
        found = survey(self.model, self.task, self._some_batches())
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.config.seed)
            names = self.model.sites.names
            probe = make_probe(names, found.widths, self.config.probe, found.read_widths).to(self.device)
        probe.standardise(found.read_means, found.read_stds)
        if beside is None:
            self._place_baselines(probe, found)
        else:
            _take_over(probe, beside)
        return probe

    def train(self, probe: Probe) -> Probe:
        optimizer = torch.optim.AdamW(probe.voters.parameters(), weight_decay=self.config.weight_decay)
        batches = self._train_batches()
        for number in range(self.config.steps):
            for group in optimizer.param_groups:
                group["lr"] = self.config.rate(number)
            depths = draw_depths(self._depths(probe), self.config.depths_per_step, self.config.seed, number)
            optimizer.zero_grad()
            torch.autograd.backward(self.loss(probe, next(batches), depths, number))
            optimizer.step()
        return probe

    def loss(self, probe: Probe, batch: Batch, depths: Sequence[int], number: int) -> Float[Tensor, ""]:
        """Compare pairs of sets, drawn anew, by the model and by the scores of each depth; depths add up."""
        seen, draw = look(self.model, self.task, batch), generator(self.config.seed, NOISE, number, self.device)
        check_finite(seen.original, f" at step {number}")
        pairs = [draw_pair(batch.valid, draw) for _ in range(self.config.pairs)]
        sites = {probe.site_name(depth): depth for depth in depths}
        better = {site: self.better(seen, probe, depth, pairs) for site, depth in sites.items()}
        known = torch.stack([better[probe.site_name(depth)] for depth in depths])  # (depth, pair, batch)
        scores = torch.stack(scores_at(probe, seen, depths)) / batch.valid.sum(1, keepdim=True).sqrt()
        guessed = torch.einsum("pbu,dbu->dpb", torch.stack([one - other for one, other in pairs]), scores)
        return (known - guessed).square().mean((1, 2)).sum()

    @torch.no_grad()
    def better(
        self, seen: Look, probe: Probe, depth: int, pairs: Sequence[tuple[Tensor, Tensor]]
    ) -> Float[Tensor, "pair batch"]:
        """Run the model on all sets in one pass and say how much better the first of each pair does."""
        keeps = [keep for pair in pairs for keep in pair]
        masked = seen.masked_each(probe, [depth] * len(keeps), keeps)
        found = torch.stack([worth(seen.original, m, self.config.measure, self.config.most) for m in masked])
        return found[::2] - found[1::2]

    def validate(self, probe: Probe) -> list[BudgetScore]:
        """Measure the rankings without noise, on examples they were not fitted on."""
        some, depths = self.task.validation[: self.config.validation_limit], range(probe.depth_count)
        batches = in_batches(self.task, some, max(64, self.config.batch_size), self.device)
        looks = (look(self.model, self.task, batch) for batch in batches)
        rows = [judge(probe, seen, depths, self.config.measure, self.config.most) for seen in looks]
        return [BudgetScore(depth, *mean) for depth, mean in enumerate(torch.cat(rows, dim=2).mean(2).T.tolist())]

    def _depths(self, probe: Probe) -> list[int]:
        """Return the depths that are fitted, in order."""
        count = probe.depth_count
        if wrong := [depth for depth in self.config.depths if not -count <= depth < count]:
            raise SettingError(f"no depth {wrong[0]} to fit a ranking at: this model has {count}, 0 to {count - 1}")
        return sorted({depth % count for depth in self.config.depths}) or list(range(count))

    def _place_baselines(self, probe: Probe, found: Survey) -> None:
        objective = Objective(ObjectiveConfig(), probe.depth_count)
        place_baselines(self.model, self.task, probe, objective, found, self._train_batches(), self.config.seed)

    def _train_batches(self) -> Iterator[Batch]:
        train, c = self.task.train, self.config
        for rows in batch_indices(len(train), c.batch_size, c.seed, 0, self.task.lengths(train)):
            yield self.task.collate([train[i] for i in rows]).to(self.device)

    def _some_batches(self) -> Iterator[Batch]:
        some = self.task.train[: SURVEY_BATCHES * self.config.batch_size]
        return in_batches(self.task, some, self.config.batch_size, self.device)


def _take_over(probe: Probe, other: Probe) -> None:
    """Put the baselines of another probe of the same sites in the place of one's own."""
    if probe.masked_indices != other.masked_indices or probe.config.removal != other.config.removal:
        raise SettingError("a budget fit beside a probe masks where and as it does: set kind and removal alike")
    probe.baselines.load_state_dict(other.baselines.state_dict())
