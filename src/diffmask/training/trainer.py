"""The loop of a fit: one step after another, validated, rescued where gates are stuck, and written down."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import CollapseError, ModelError
from ..gates.noise import Part
from ..gates.probe import Probe, make_probe
from ..gates.score_function import ScoreFunction
from ..models.adapter import Adapter
from ..objective.objective import Objective
from ..tasks.task import Task
from ..types import Batch, broken, raise_if_broken
from .bar import Bar
from .cache import Cache
from .calibrate import calibrate
from .comparing import compare_sets
from .config import FitConfig
from .guard import diagnose, give_up
from .optimizer import OPTIMIZERS
from .processes import Processes
from .random import NOISE, START, batch_indices, draw_depths, generator
from .run import Progress, Run, data_mark
from .start import Survey, measure_start, place_baselines, survey
from .step import Look, look, step
from .validate import DepthScore, in_batches, validate, validation_batches

if TYPE_CHECKING:
    from accelerate import Accelerator

log = logging.getLogger(__name__)

SURVEY_BATCHES = 16


class Trainer:
    """The loop, and what it needs at every turn."""

    def __init__(
        self, model: Adapter, task: Task, config: FitConfig, accelerator: Accelerator, checkpoint: Path | None
    ) -> None:
        self.model, self.task, self.config = model, task, config
        self.accelerator, self.checkpoint = accelerator, checkpoint
        self.device: torch.device = model.device if model.spread else accelerator.device
        self.processes = Processes(accelerator)
        self.given_up: set[int] = set()
        self.unchecked: list[tuple[int, str, Tensor]] = []  # of which examples an output was broken, at each step
        self.cache: Cache | None = None

    def run_to_end(self, bar: Bar) -> tuple[Run, list[DepthScore]]:
        """Train until every depth has ended or nothing gets better; return the run, its probe selected, and scores."""
        run = self._start(bar)
        bar.move_to(run.progress.step)
        batches = self._train_rows(run.progress.step)
        if self.config.cache != "off":
            self.cache = self._make_cache()
        try:
            return run, self._train(run, batches, bar)
        except (CollapseError, ModelError) as error:
            raise type(error)(f"{error}{self._another_try()}") from error
        finally:
            if self.cache is not None:
                self.cache.close()

    def _make_cache(self) -> Cache:
        mode, budget = self.config.cache, self.config.cache_budget
        folder = None if self.checkpoint is None else self.checkpoint.parent
        agree = self.processes.all_say if self.model.sharded else bool
        return Cache(self.model, self.task, mode, budget, self.device, folder, agree)

    def _another_try(self) -> str:
        """Say what stands in the way of other settings: a checkpoint that is good, and so is not thrown away here."""
        if self.checkpoint is None:
            return ""
        return f"; to try other settings in {self.checkpoint.parent}, remove {self.checkpoint.name} there"

    def _train(self, run: Run, batches: Iterator[tuple[list[int], Batch]], bar: Bar) -> list[DepthScore]:
        while run.progress.unfinished() and not self._waited_enough(run):
            self._one_step(run, *next(batches))
            bar.advance(max(run.progress.ends))
            if run.progress.step % self.config.validation_steps == 0:
                self._validate(run, bar)
            if run.progress.step % self.config.checkpoint_steps == 0:
                self._save(run)
        return self._finish(run)

    def _one_step(self, run: Run, rows: Sequence[int], batch: Batch) -> None:
        """Take one step at one depth or several; what is held or has ended stands still.

        Nothing in it waits for the device: what has to be looked at is looked at before the next validation.
        """
        now = run.progress
        depths = draw_depths(now.unfinished(), self.config.depths_per_step, self.config.seed, now.step)
        shares = [now.of(depth) for depth in depths]
        share = min(shares)  # the rates and the baseline are common to all
        self._set_rates(run, share)
        noise = generator(self.config.seed, NOISE, now.step, self.device)
        seen = self._look(rows, batch, max(depths))
        self.unchecked += [(now.step, name, broken(head)) for name, head in seen.original.items()]
        run.optimizer.zero_grad()
        self.accelerator.backward(self._losses(run, seen, depths, shares, noise, self.processes.part(len(rows))).sum())
        self.processes.add_gradients(run.probe.parameters())
        self._hold_still(run, depths, share)
        run.optimizer.step()
        now.step += 1

    def _losses(
        self,
        run: Run,
        seen: Look,
        depths: Sequence[int],
        shares: Sequence[float],
        noise: torch.Generator,
        part: Part | None,
    ) -> Float[Tensor, " depth"]:
        """Try the masks of the gates, or compare sets of units where rankers learn an order."""
        if self.config.probe.voter == "ranker":
            return run.objective.mean(compare_sets(seen, run.probe, self.config.comparison, depths, noise, part))
        losses = step(seen, run.probe, run.objective, depths, progress=shares, generator=noise, part=part, spend=True)
        return torch.stack([loss.total for loss in losses])

    def _look(self, rows: Sequence[int], batch: Batch, deepest: int) -> Look:
        """Look at the examples of a batch that are this process's."""
        if (part := self.processes.part(len(rows))) is not None:
            rows, batch = rows[part.first : part.end], batch.take(torch.arange(part.first, part.end))
        if self.cache is not None:
            return self.cache.look(rows, batch, deepest)
        moved = batch.pin().to(self.device) if self.device.type == "cuda" else batch.to(self.device)
        return look(self.model, self.task, moved)

    def _hold_still(self, run: Run, depths: Sequence[int], share: float) -> None:
        if share < run.probe.config.baseline.hold:
            run.probe.baselines.zero_grad()
        voters = {voter for depth in depths for voter in run.probe.voters_at(depth)}
        for ended in voters - set(run.progress.unfinished()):
            run.probe.voter(ended).zero_grad()

    def _set_rates(self, run: Run, share: float) -> None:
        rise = min(1.0, (run.progress.step + 1) / self.config.warmup) if self.config.warmup else 1.0
        fall = min(1.0, (1 - share) / self.config.decay) if self.config.decay else 1.0
        for group in run.optimizer.param_groups:
            group["lr"] = group["base_lr"] * rise * fall

    def _validate(self, run: Run, bar: Bar) -> None:
        scores = self._scores(run)
        run.compare(scores)
        bar.note(scores)
        for score in scores:
            if self.config.guard and run.settled(score.depth):
                self._rescue(run, score)

    def _scores(self, run: Run) -> list[DepthScore]:
        self._check_weights(run)
        batches = self._validation_batches()
        return validate(self.model, self.task, run.probe, run.objective, batches, self.processes)

    def _rescue(self, run: Run, score: DepthScore) -> None:
        """Start a stuck depth anew, or say what is known when that did not help."""
        trouble = diagnose(self.model, self.task, run.probe, run.objective, score, self._validation_batches())
        if trouble is None:
            return
        if run.progress.restarts[score.depth] >= self.config.restarts:
            if score.depth not in self.given_up:  # say it once
                give_up(trouble, score, self.config.objective.margin, spare=bool(run.best))
            self.given_up.add(score.depth)
            return
        log.warning("depth %d is stuck %s at step %d: starting anew", score.depth, trouble, run.progress.step)
        run.progress.start_anew(score.depth, self.config.steps)
        voter = run.probe.voter(score.depth)
        voter.restart(generator(self.config.seed, START, run.progress.step, self.device))
        run.objective.dual.reset(score.depth)
        for parameter in voter.parameters():
            run.optimizer.state.pop(parameter, None)

    def _waited_enough(self, run: Run) -> bool:
        return self.config.patience > 0 and run.progress.waited >= self.config.patience

    def _finish(self, run: Run) -> list[DepthScore]:
        """Select the sparsest feasible probe; if there is none, keep the last one."""
        if not run.compared:
            run.compare(self._scores(run))
        if self.config.select and run.best:
            run.probe.load_state_dict(run.best)
        if self.config.calibrate:
            calibrate(run.probe, lambda: self._scores(run), self.config.objective.margin, self.config.undecided)
        scores = self._scores(run)
        self._save(run)
        return scores

    def _start(self, bar: Bar) -> Run:
        """Build the run, and either go on from its checkpoint or find where it starts."""
        bar.say("looking at the model")
        found = survey(self.model, self.task, self._some_batches())
        run = self._make_run(found)
        if self.checkpoint and self.processes.as_main(self.checkpoint.exists()):
            run.load(self.checkpoint)
            return run
        bar.say("placing the baseline")
        seed = self.config.seed
        run.probe.standardise(found.read_means, found.read_stds)
        place_baselines(self.model, self.task, run.probe, run.objective, found, self._train_batches(0), seed)
        measure_start(self.model, self.task, run.probe, run.objective, self._some_batches(), seed)
        self.processes.follow_main(run.probe, run.objective)
        self._save(run)
        return run

    def _make_run(self, found: Survey) -> Run:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.config.seed)
            names = self.model.sites.names
            probe = make_probe(names, found.widths, self.config.probe, found.read_widths).to(self.device)
        objective = Objective(self.config.objective, probe.depth_count).to(self.device)
        if self.processes.count > 1:
            objective.mean = self.processes.mean
            for gate in (gate for gate in probe.gates if isinstance(gate, ScoreFunction)):
                gate.mean = self.processes.mean
        progress = Progress.fresh(probe.depth_count, self.config.steps)
        optimizer = self._make_optimizer(probe, found)
        marks = self.model.fingerprint, data_mark(self.task)
        return Run(self.config, probe, objective, optimizer, progress, *marks)

    def _make_optimizer(self, probe: Probe, found: Survey) -> torch.optim.Optimizer:
        """Give the gates one rate, and each baseline one that fits the size of the states it stands in for."""
        rate, settings = self.config.learning_rate, self.config.probe.baseline
        decay = {"weight_decay": self.config.weight_decay}
        groups = [{"params": list(probe.voters.parameters()), "lr": rate, "base_lr": rate, **decay}]
        for vector, site in zip(probe.baselines.vectors, probe.masked_indices, strict=False):
            own = rate * settings.learning_rate * (float(found.stds[site].mean()) if settings.scaled else 1.0)
            groups += [{"params": [vector], "lr": own, "base_lr": own, "weight_decay": 0.0}] if settings.learned else []
        optimizer: torch.optim.Optimizer = OPTIMIZERS.get(self.config.optimizer)(groups, lr=rate)
        return optimizer

    def _train_batches(self, first: int) -> Iterator[Batch]:
        return (batch.to(self.device) for _, batch in self._train_rows(first))

    def _train_rows(self, first: int) -> Iterator[tuple[list[int], Batch]]:
        """Yield which examples each batch is made of, and the batch, on the host."""
        lengths = self.task.lengths(self.task.train)
        for rows in batch_indices(len(self.task.train), self.config.batch_size, self.config.seed, first, lengths):
            yield rows, self.task.collate([self.task.train[i] for i in rows])

    def _some_batches(self) -> Iterator[Batch]:
        """Yield the first training batches in order of the data."""
        some = self.task.train[: SURVEY_BATCHES * self.config.batch_size]
        return in_batches(self.task, some, self.config.batch_size, self.device)

    def _validation_batches(self) -> Iterator[Batch]:
        limit, size = self.config.validation_limit, self.config.batch_size
        return validation_batches(self.task, limit, size, self.device)

    def _save(self, run: Run) -> None:
        self._check_weights(run)
        if self.checkpoint:
            if self.processes.main:
                run.save(self.checkpoint)
            self.processes.wait()

    def _check_weights(self, run: Run) -> None:
        """Stop before NaN is validated or saved: the last checkpoint is then still good."""
        unchecked, self.unchecked = self.unchecked, []
        if unchecked and bool(torch.cat([bad for _, _, bad in unchecked]).any()):
            for number, name, bad in unchecked:
                raise_if_broken(name, bad, f" at step {number}")
        if not bool(torch.cat([parameter.detach().flatten() for parameter in run.probe.parameters()]).isfinite().all()):
            raise ModelError(
                f"the probe's weights became NaN or infinite before step {run.progress.step}: the model's masked "
                "output or its gradient was not finite; run the model in float32, or lower the learning rate"
            )
