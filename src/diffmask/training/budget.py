"""Fit a ranking: of two sets of as many units, the one it scores higher should keep the prediction better.

A fitted probe says which units are enough; it does not say which of them matters most. Here two sets S and T of the
same random size are kept in turn, and the scores φ of the units learn by least squares how much better S does:

    loss = E_S,T ( v(S) − v(T) − (Σ_S φ − Σ_T φ) / √n )²        v(S) = −D(prediction from S alone)

Sizes are even between one unit and all but one, so what is learned is a unit's mean effect over all budgets: that of
keeping it in small sets, and of removing it from large ones. The model is only run, never differentiated: the gradient
at a hard choice is local and says little about the choice. With D the probability lost by what was decided the ranking
has a direction: what speaks for the decision comes first, what speaks against it last. There is no λ, no margin and no
collapse. It may rank what no layer knows to be needed: take the set from `fit`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import torch
from accelerate import Accelerator
from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError
from ..gates.baseline import BaselineConfig
from ..gates.budget import draw_pair, keep_highest
from ..gates.probe import Probe, ProbeConfig, make_probe
from ..models.adapter import Adapter
from ..objective.divergence import DIVERGENCES, divergence
from ..objective.objective import Objective, ObjectiveConfig
from ..objective.target import target
from ..tasks.task import Task
from ..types import Batch, Prediction, Value, check_finite
from .fit import check_fit
from .random import NOISE, batch_indices, draw_depths, generator
from .start import Moments, Survey, place_baselines, survey
from .step import Look, look
from .validate import in_batches

SURVEY_BATCHES = 16
SIGNED = ("decision", "probability")  # measures of what was decided; a divergence is of the whole prediction
SHARES = (0.25, 0.5, 0.75)  # of the units kept, at which a ranking is validated


def _ranking() -> ProbeConfig:
    return ProbeConfig(
        votes="separate", hidden=256, start_open=0.5, spread=1.0, baseline=BaselineConfig(learned=False, start="mean")
    )


@dataclass(frozen=True)
class BudgetConfig:
    """How a ranking is found."""

    probe: ProbeConfig = field(default_factory=_ranking)
    measure: Annotated[
        str, "probability: 1 − p of what was decided, decision: −log p of it, both with a direction; or e.g. kl"
    ] = "probability"
    most: Annotated[float, "nats beyond which a change counts no more"] = 5.0
    pairs: Annotated[int, "pairs of sets compared per example and step, from one original pass"] = 1
    steps: Annotated[int, "optimiser steps"] = 2000
    batch_size: Annotated[int, "examples per step"] = 32
    depths: Annotated[tuple[int, ...], "the depths that are fitted, which may count from the end; none: all"] = ()
    depths_per_step: Annotated[int, "of those trained at every step, from one original pass; 0 takes all"] = 0
    learning_rate: Annotated[float, "of the rankers; it falls to 0 over the second half"] = 2e-3
    seed: Annotated[int, "every draw depends on it and on the step alone"] = 0
    validation_limit: Annotated[int, "most examples used to validate"] = 1024

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "learning_rate", "most", "pairs", "validation_limit"):
            if not getattr(self, name) > 0:
                raise SettingError(f"{name} of a budget fit must be positive, got {getattr(self, name)}")
        if self.depths_per_step < 0:
            raise SettingError(f"depths_per_step of a budget fit must be 0 or more, got {self.depths_per_step}")
        if self.probe.votes != "separate" or self.probe.voter != "standard":
            raise SettingError("a budget fit ranks at each depth alone: use votes = separate and voter = standard")
        if self.measure not in SIGNED:
            DIVERGENCES.get(self.measure)


@dataclass(frozen=True)
class BudgetScore:
    """A ranking at one depth: what keeping its first units changes, and removing them, averaged over three budgets."""

    depth: int
    kept: float
    removed: float


@dataclass(frozen=True)
class BudgetFit:
    """A fitted ranking with what it belongs to; the logits of its probe are the scores."""

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
        found, (widths, means, stds) = survey(self.model, self.task, self._some_batches()), self._survey_context()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.config.seed)
            names = self.model.sites.names
            probe = make_probe(names, found.widths, self.config.probe, widths).to(self.device)
        probe.standardise(means, stds)
        if beside is None:
            self._place_baselines(probe, found)
        else:
            _take_over(probe, beside)
        return probe

    def train(self, probe: Probe) -> Probe:
        rate = self.config.learning_rate
        optimizer = torch.optim.Adam(probe.voters.parameters(), lr=rate)
        batches = self._train_batches()
        for number in range(self.config.steps):
            for group in optimizer.param_groups:
                group["lr"] = rate * min(1.0, 2 * (1 - number / self.config.steps))
            depths = draw_depths(self._depths(probe), self.config.depths_per_step, self.config.seed, number)
            optimizer.zero_grad()
            torch.autograd.backward(self.loss(probe, next(batches), depths, number))
            optimizer.step()
        return probe

    def loss(self, probe: Probe, batch: Batch, depths: Sequence[int], number: int) -> Float[Tensor, ""]:
        """Compare pairs of sets, drawn anew, by the model and by the scores of each depth."""
        seen, draw = look(self.model, self.task, batch), generator(self.config.seed, NOISE, number, self.device)
        check_finite(seen.original, f" at step {number}")
        scores = torch.stack(scores_at(probe, seen, depths))
        losses = [self.error(seen, probe, depths, scores, draw) for _ in range(self.config.pairs)]
        return torch.stack(losses).mean()

    def error(
        self, seen: Look, probe: Probe, depths: Sequence[int], scores: Tensor, draw: torch.Generator
    ) -> Float[Tensor, ""]:
        """Draw a pair and say how far the scores are off how much better one set does; depths add up."""
        one, other = draw_pair(seen.batch.valid, draw)
        sites = dict.fromkeys(probe.site_name(depth) for depth in depths)
        better = {site: self.better(seen, probe, depths, site, one, other) for site in sites}
        known = torch.stack([better[probe.site_name(depth)] for depth in depths])
        guessed = ((one - other) * scores).sum(-1) / seen.batch.valid.sum(1).sqrt()
        return (known - guessed).square().mean(1).sum()

    @torch.no_grad()
    def better(
        self, seen: Look, probe: Probe, depths: Sequence[int], site: str, one: Tensor, other: Tensor
    ) -> Float[Tensor, " batch"]:
        """Run the model on both sets at a site and say how much less the first changes."""
        depth = next(depth for depth in depths if probe.site_name(depth) == site)
        masked = seen.masked_each(probe, [depth, depth], [one, other])
        first, second = (distance(seen.original, m, self.config.measure).clamp_max(self.config.most) for m in masked)
        return second - first

    def changes(
        self, seen: Look, probe: Probe, depths: Sequence[int], keeps: Sequence[Tensor]
    ) -> tuple[Float[Tensor, "depth batch"], Float[Tensor, "depth batch"]]:
        """Measure what is changed when only some units are kept, and when they are removed."""
        masked = seen.masked_each(probe, [*depths, *depths], [*keeps, *(1 - keep for keep in keeps)])
        far = torch.stack([distance(seen.original, prediction, self.config.measure) for prediction in masked])
        return far[: len(depths)], far[len(depths) :]

    @torch.no_grad()
    def validate(self, probe: Probe) -> list[BudgetScore]:
        """Measure the rankings without noise, on examples they were not fitted on."""
        rows, depths = list[Tensor](), range(probe.depth_count)
        some = self.task.validation[: self.config.validation_limit]
        for batch in in_batches(self.task, some, max(64, self.config.batch_size), self.device):
            seen = look(self.model, self.task, batch)
            scores = scores_at(probe, seen, depths)
            for share in SHARES:
                counts = (share * batch.valid.sum(1)).round().long()
                keeps = [keep_highest(score, counts, batch.valid) for score in scores]
                rows.append(torch.stack(self.changes(seen, probe, depths, keeps)))  # (2, depth, batch)
        means = torch.cat(rows, dim=2).mean(2).T.tolist()
        return [BudgetScore(depth, *mean) for depth, mean in enumerate(means)]

    def _depths(self, probe: Probe) -> list[int]:
        """Return the depths that are fitted, in order."""
        count = probe.depth_count
        if wrong := [depth for depth in self.config.depths if not -count <= depth < count]:
            raise SettingError(f"no depth {wrong[0]} to fit a ranking at: this model has {count}, 0 to {count - 1}")
        return sorted({depth % count for depth in self.config.depths}) or list(range(count))

    def _survey_context(self) -> tuple[list[int], list[Tensor], list[Tensor]]:
        """Return the width, mean and spread of what a ranker reads at each site."""
        moments = {name: Moments() for name in self.model.sites.names}
        for batch in self._some_batches():
            for name, read in in_context(look(self.model, self.task, batch)).items():
                moments[name].add(read[batch.valid])
        means, stds = zip(*(moment.mean_and_std() for moment in moments.values()), strict=True)
        return [len(mean) for mean in means], list(means), list(stds)

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


def in_context(seen: Look) -> dict[str, Float[Tensor, "batch unit read"]]:
    """Return what a ranker reads: what a gate does, and the mean of that over all units of the example.

    Whether a unit speaks for or against the decision depends on the decision, which its own state need not know.
    """
    valid = seen.batch.valid.unsqueeze(-1)
    found = {}
    for name, read in seen.reading.items():
        mean = (read * valid).sum(1, keepdim=True) / valid.sum(1, keepdim=True)
        found[name] = torch.cat([read, mean.expand_as(read)], dim=-1)
    return found


def scores_at(probe: Probe, seen: Look, depths: Sequence[int]) -> list[Float[Tensor, "batch unit"]]:
    """Return the score of every unit at each of the depths, beside the mean of its example."""
    valid = seen.batch.valid
    logits = [votes.logits[0] * valid for votes in probe.votes(in_context(seen), depths)]
    return [(each - each.sum(1, keepdim=True) / valid.sum(1, keepdim=True)) * valid for each in logits]


def distance(original: Prediction, masked: Prediction, measure: str) -> Float[Tensor, " batch"]:
    """Say how badly a masked prediction fits: by what was decided, or as a whole; a value by its squared error."""
    if measure in SIGNED and not any(isinstance(head, Value) for head in original.values()):
        chosen = target(masked, original)
        return 1 - chosen.exp() if measure == "probability" else -chosen
    return divergence(original, masked, "kl" if measure in SIGNED else measure)


def _take_over(probe: Probe, other: Probe) -> None:
    """Put the baselines of another probe of the same sites in the place of one's own."""
    if probe.masked_indices != other.masked_indices or probe.config.removal != other.config.removal:
        raise SettingError("a budget fit beside a probe masks where and as it does: set kind and removal alike")
    probe.baselines.load_state_dict(other.baselines.state_dict())
