"""Fit a probe: find, once per model, what its predictions can do without."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from ..errors import DataError, ModelError, SettingError
from ..gates.probe import Probe, make_probe
from ..models.adapter import Adapter
from ..objective.objective import Objective
from ..tasks.task import Task
from ..types import Batch
from .bar import Bar
from .config import FitConfig
from .guard import diagnose, give_up
from .optimizer import OPTIMIZERS
from .random import NOISE, START, batch_indices, draw_depth, generator
from .run import Progress, Run
from .start import Survey, measure_start, place_baselines, survey
from .step import look, step
from .validate import DepthScore, in_batches, validate

log = logging.getLogger(__name__)

SURVEY_BATCHES = 16
CHECKPOINT = "checkpoint.safetensors"


@dataclass(frozen=True)
class Fit:
    """A fitted probe with what it belongs to, how good it is at each depth without noise, and how it got there."""

    model: Adapter
    task: Task
    probe: Probe
    config: FitConfig
    scores: list[DepthScore]
    restarts: list[int]
    history: list[dict[str, Any]]
    fingerprint: str

    @property
    def feasible(self) -> bool:
        """Whether the thresholded masks hold the constraint at every depth."""
        return all(score.feasible(self.config.objective) for score in self.scores)


def fit(
    model: Adapter,
    task: Task,
    config: FitConfig | None = None,
    *,
    directory: str | Path | None = None,
    progress: bool = False,
) -> Fit:
    """Fit a probe to a frozen model.

    With a `directory`, the state is written there as it goes; the same call after a crash or a kill goes on from it
    and ends with the same weights. The model's weights, gradients and mode are as before when it returns.
    """
    config = config or FitConfig()
    trainer = _Trainer(model, task, config, Path(directory) if directory is not None else None)
    with model.frozen(), Bar("fit", config.steps, progress) as bar:
        return trainer.run_to_end(bar)


class _Trainer:
    """The loop, and what it needs at every turn."""

    def __init__(self, model: Adapter, task: Task, config: FitConfig, directory: Path | None) -> None:
        self.accelerator = Accelerator()
        if self.accelerator.num_processes > 1:
            raise SettingError("fit runs in one process for now: start it without `accelerate launch --num_processes`")
        if len(task.train) == 0 or len(task.validation) == 0:
            raise DataError("a fit needs at least one training and one validation example")
        self.model, self.task, self.config = model, task, config
        self.device = self.accelerator.device
        self.model.model.to(self.device)
        self.checkpoint = None if directory is None else str(directory / CHECKPOINT)

    def run_to_end(self, bar: Bar) -> Fit:
        run = self._start()
        bar.move_to(run.progress.step)
        batches = self._train_batches(run.progress.step)
        while run.progress.unfinished() and not self._waited_enough(run):
            self._one_step(run, next(batches))
            bar.advance(max(run.progress.ends))
            if run.progress.step % self.config.validation_steps == 0:
                self._validate(run, bar)
            if self.checkpoint and run.progress.step % self.config.checkpoint_steps == 0:
                run.save(self.checkpoint)
        return self._finish(run)

    def _one_step(self, run: Run, batch: Batch) -> None:
        """Take one step at one depth; the baseline stands still while it is held."""
        now = run.progress
        depth = draw_depth(now.unfinished(), self.config.seed, now.step)
        share = now.of(depth)
        self._set_rates(run, share)
        noise = generator(self.config.seed, NOISE, now.step, self.device)
        seen = look(self.model, self.task, batch)
        loss = step(self.model, self.task, seen, run.probe, run.objective, depth, depth, share, noise)
        run.optimizer.zero_grad()
        self.accelerator.backward(loss.total)
        if share < run.probe.config.baseline.hold:
            run.probe.baselines.zero_grad()
        run.optimizer.step()
        now.step += 1

    def _set_rates(self, run: Run, share: float) -> None:
        rise = min(1.0, (run.progress.step + 1) / self.config.warmup) if self.config.warmup else 1.0
        fall = min(1.0, (1 - share) / self.config.decay) if self.config.decay else 1.0
        for group in run.optimizer.param_groups:
            group["lr"] = group["base_lr"] * rise * fall

    def _validate(self, run: Run, bar: Bar) -> None:
        self._check_weights(run)
        scores = validate(self.model, self.task, run.probe, run.objective, self._validation_batches())
        better = run.keep_if_better(scores)
        settled = run.progress.best_cost is not None
        run.progress.waited = 0 if better else run.progress.waited + settled
        run.progress.history.append(_history_row(run, scores))
        bar.note(scores)
        self._rescue(run, scores)

    def _rescue(self, run: Run, scores: Sequence[DepthScore]) -> None:
        """Start stuck depths anew, or stop with what is known when that did not help."""
        for score in scores if self.config.restarts else ():
            if run.progress.of(score.depth) < max(run.config.objective.tighten, 0.1):
                continue  # still on its way
            trouble = diagnose(self.model, self.task, run.probe, run.objective, score, self._validation_batches())
            if trouble is not None and run.progress.restarts[score.depth] < self.config.restarts:
                log.warning("depth %d is stuck %s at step %d: starting anew", score.depth, trouble, run.progress.step)
                self._start_anew(run, score.depth)
            elif trouble is not None:
                give_up(trouble, score, self.config.objective.margin)

    def _start_anew(self, run: Run, depth: int) -> None:
        run.progress.start_anew(depth, self.config.steps)
        voter = run.probe.voter(depth)
        voter.restart(generator(self.config.seed, START, run.progress.step, self.device))
        run.objective.dual.reset(depth)
        for parameter in voter.parameters():
            run.optimizer.state.pop(parameter, None)

    def _waited_enough(self, run: Run) -> bool:
        return bool(self.config.patience) and run.progress.waited >= self.config.patience

    def _finish(self, run: Run) -> Fit:
        """Return the sparsest feasible probe, or the last one and say that it is not feasible."""
        self._check_weights(run)
        if self.config.select and run.best:
            run.probe.load_state_dict(run.best)
        scores = validate(self.model, self.task, run.probe, run.objective, self._validation_batches())
        now = run.progress
        fitted = Fit(self.model, self.task, run.probe, self.config, scores, now.restarts, now.history, run.fingerprint)
        if not fitted.feasible:
            worst = max(scores, key=lambda score: score.divergence)
            log.warning(
                "no probe held the constraint at every depth; the last one has divergence %.3g at depth %d: "
                "train longer, or certify() each explanation",
                worst.divergence,
                worst.depth,
            )
        if self.checkpoint:
            run.save(self.checkpoint)
        return fitted

    def _start(self) -> Run:
        """Build the run, and either go on from its checkpoint or find where it starts."""
        found = survey(self.model, self.task, self._some_batches(SURVEY_BATCHES))
        run = self._make_run(found)
        if self.checkpoint and Path(self.checkpoint).exists():
            run.load(self.checkpoint)
            return run
        self._prepare(run, found)
        if self.checkpoint:
            run.save(self.checkpoint)
        return run

    def _make_run(self, found: Survey) -> Run:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.config.seed)
            probe = make_probe(self.model.sites.names, found.widths, self.config.probe).to(self.device)
        objective = Objective(self.config.objective, probe.depth_count).to(self.device)
        progress = Progress.fresh(probe.depth_count, self.config.steps)
        optimizer = self._make_optimizer(probe, found)
        return Run(self.config, probe, objective, optimizer, progress, self.model.fingerprint)

    def _make_optimizer(self, probe: Probe, found: Survey) -> torch.optim.Optimizer:
        """Give the gates one rate, and each baseline one that fits the size of the states it stands in for."""
        rate, settings = self.config.learning_rate, self.config.probe.baseline
        groups = [{"params": list(probe.voters.parameters()), "lr": rate, "base_lr": rate}]
        for vector, site in zip(probe.baselines.vectors, probe.masked_indices, strict=False):
            own = rate * settings.learning_rate * (float(found.stds[site].mean()) if settings.scaled else 1.0)
            groups += [{"params": [vector], "lr": own, "base_lr": own}] if settings.learned else []
        optimizer: torch.optim.Optimizer = OPTIMIZERS.get(self.config.optimizer)(groups, lr=rate)
        return optimizer

    def _prepare(self, run: Run, found: Survey) -> None:
        seed = self.config.seed
        run.probe.standardise(found.means, found.stds)
        batches = self._train_batches(0)
        place_baselines(self.model, self.task, run.probe, run.objective, found, batches, seed)
        checked = self._some_batches(SURVEY_BATCHES)
        for depth in range(run.probe.depth_count):
            measure_start(self.model, self.task, run.probe, run.objective, checked, depth, seed)

    def _train_batches(self, first: int) -> Iterator[Batch]:
        for rows in batch_indices(len(self.task.train), self.config.batch_size, self.config.seed, first):
            yield self.task.collate([self.task.train[i] for i in rows]).to(self.device)

    def _some_batches(self, count: int) -> list[Batch]:
        """Return the first training batches in order of the data."""
        some = self.task.train[: count * self.config.batch_size]
        return list(in_batches(self.task, some, self.config.batch_size, self.device))

    def _validation_batches(self) -> Iterator[Batch]:
        some = self.task.validation[: self.config.validation_limit]
        return in_batches(self.task, some, max(64, self.config.batch_size), self.device)

    def _check_weights(self, run: Run) -> None:
        """Stop before NaN is validated or saved: the last checkpoint is then still good."""
        if not all(bool(parameter.isfinite().all()) for parameter in run.probe.parameters()):
            raise ModelError(
                f"the probe's weights became NaN or infinite before step {run.progress.step}: the model's output or "
                "its gradient was not finite on some training example; check the data, or lower learning_rate"
            )


def _history_row(run: Run, scores: Sequence[DepthScore]) -> dict[str, Any]:
    multipliers = run.objective.dual.multiplier.tolist()
    return {
        "step": run.progress.step,
        "kept": [score.kept for score in scores],
        "divergence": [score.divergence for score in scores],
        "multiplier": multipliers,
    }
