"""Patch counting (Nalmpantis et al. 2023, §3.2, App. C): does the probe find the patches that are counted, each time?

Each seed draws its own images and trains its own small vision transformer. Our recipe starts at four shares kept; the
published one at the same shares (by its β, which sets them only on average) and at the paper's β = 8, with λ moved the
right way and as released.
Its learning rates are those of the paper times 25 for gates and 10 for the baseline: the paper's are for a model of 16
times the width and 7,500 steps; it is run with the first seeds only. The rivals score the same images.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import log
from statistics import mean
from typing import Any

import torch
from torch import Tensor

from ..attribution import METHODS
from ..attribution.method import Method, Question
from ..attribution.ranking import RankScores
from ..errors import CollapseError
from ..models.adapter import Adapter
from ..models.adapting import adapt
from ..settings import change
from ..tasks.patch_counting import PatchCounting
from ..training.config import FitConfig, recipe
from ..training.fit import Fit, fit
from ..training.start import survey
from ..training.step import Look, look
from .patch_counter import train_patch_counter
from .patch_counting_scores import as_mask, judge_gap, judge_mask, judge_prediction, judge_ranking, judge_recoloured
from .patch_counting_shown import as_lines, shown_grids
from .result import write_result
from .seeds import check_own, keep_fuller, lay_out, run_seeds, with_makers
from .setup import News, Setup
from .trained import device

MARGIN, STARTS, OWN = 0.1, (0.95, 0.9, 0.7, 0.5), 0.0  # OWN: the paper's β, whatever share that keeps
GOOD = {"auroc": 0.99, "exact": 0.98}  # what it takes to have converged
OURS, RIGHT, RELEASED, RIVALS = "diffmask", "published", "published, released sign", "rivals"
DRAWN_START = 0.9  # of ours, in the picture
FIRST = 100  # seed of the first images: the recipe was tuned on others
DEPTHS = 5  # patches, what enters the first block, three blocks
NAMES = (
    *("grad-cam", "rollout", "chefer", "attention", "gradient", "gradient-input", "integrated-gradients"),
    *("rise", "leave-one-out", "random"),
)


@dataclass(frozen=True)
class Size:
    """How long everything is trained; the small one is for a demo, not for figures."""

    model_steps: int = 2000
    steps: int = 2000
    published_steps: int = 4000
    published_seeds: int = 3
    test: int = 1000
    oracle: int = 100
    starts: tuple[float, ...] = STARTS


FULL, SMALL = Size(), Size(model_steps=600, steps=600, published_steps=0, test=200, oracle=20, starts=(0.9,))


@dataclass(frozen=True)
class Job:
    """A recipe from one start, or the rivals, on the model of a seed."""

    part: str
    start: float
    seed: int

    @property
    def drawn(self) -> bool:
        """Whether its masks are in the picture."""
        return self.seed == 0 and self.start == (DRAWN_START if self.part == OURS else OWN)


def run(setup: Setup) -> News:
    """Run every recipe from every start with every seed, saying so as each ends; last comes the result as written."""
    size, work = SMALL if setup.small else FULL, setup.work("patch-counting")
    jobs = all_jobs(size, setup.seeds)
    yield len(jobs)
    keep_fuller(setup.output, len(jobs))
    lay_out(work, setup.output)
    done, run_one = {}, partial(run_job, jobs, size)
    for number, found in run_seeds(run_one, range(len(jobs)), work, repr((size, jobs)), setup.jobs, setup.take_over):
        check_own(work, number, job_of(found["rows"][0]), jobs[number])
        done[number] = found
        yield _line(jobs[number], found["rows"])
    rows = [row for number in sorted(done) for row in done[number]["rows"]]
    masks = [done[number].get("masks", {}) for number in sorted(done)]  # older runs that are taken over have none
    more = {"margin": MARGIN, "good": GOOD, **with_makers(work, done)}
    more |= {"shown": shown_grids(PatchCounting(seed=FIRST, test=size.test), masks)}
    yield write_result(setup.output, "patch-counting", setup.command, range(setup.seeds), summarise(rows), rows, **more)


def all_jobs(size: Size, seeds: int) -> list[Job]:
    """List what is run: our recipe first, so that a study cut short has it."""
    ours = [Job(OURS, start, seed) for seed in range(seeds) for start in size.starts]
    rivals = [Job(RIVALS, OWN, seed) for seed in range(seeds)]
    few, parts, starts = range(min(seeds, size.published_seeds)), (RIGHT, RELEASED), (*size.starts, OWN)
    others = [Job(part, start, seed) for seed in few for part in parts for start in starts]
    return ours + rivals + (others if size.published_steps else [])


def run_job(jobs: Sequence[Job], size: Size, number: int) -> dict[str, Any]:
    """Train the model of a seed and judge one part on images it was not fitted on."""
    job, task = jobs[number], PatchCounting(seed=FIRST + jobs[number].seed, test=size.test)
    counter, accuracy = train_patch_counter(task, job.seed, size.model_steps, device())
    model = adapt(counter)
    rows = rival_rows(model, task, job, size) if job.part == RIVALS else [fit_row(model, task, job, size)]
    more = {"seed": job.seed, "start": job.start or None, "model_accuracy": accuracy}
    masks = {row["method"]: row.pop("masks") for row in rows if "masks" in row}
    return {"rows": [{**row, **more} for row in rows], "masks": masks if job.drawn else {}}


def job_of(row: Mapping[str, Any]) -> Job:
    """Return the job that a row is of."""
    return Job(RIVALS if row["method"] in NAMES else row["method"], row["start"] or OWN, row["seed"])


def config_of(job: Job, size: Size) -> FitConfig:
    """Return the settings of a recipe from a start."""
    common = {"margin": MARGIN, "seed": job.seed, "batch_size": 64}
    if job.part == OURS:
        return recipe("vision", start_open=job.start, steps=size.steps, learning_rate=5e-3, depths_per_step=0, **common)
    published = recipe("published-vision", steps=size.published_steps, learning_rate=5e-4, warmup=100, **common)
    published = change(published, {"sign": "descent" if job.part == RELEASED else "ascent"})
    baseline = {"baseline": {"learning_rate": 1e-2 / 5e-4}}
    return change(published, baseline if job.start == OWN else {**baseline, "offset": offset_of(job.start)})


def offset_of(share: float) -> float:
    """Return the β at which gates that say nothing else keep a share: σ(β + 0.2·log 5) to the power of the depths."""
    each = share ** (1 / DEPTHS)
    return log(each / (1 - each)) - 0.2 * log(5)


def fit_row(model: Adapter, task: PatchCounting, job: Job, size: Size) -> dict[str, Any]:
    """Fit a recipe and judge it at its last depth; one that gave up has not converged."""
    try:
        fitted = fit(model, task, config_of(job, size))
    except CollapseError as error:
        return {"method": job.part, "converged": False, "collapsed": str(error), "auroc": 0.5, "exact": 0.0}
    found = judge_fit(fitted, task, size, job.seed)
    return {"method": job.part, "converged": all(found[name] >= least for name, least in GOOD.items()), **found}


@torch.no_grad()
def judge_fit(fitted: Fit, task: PatchCounting, size: Size, seed: int) -> dict[str, Any]:
    """Judge the ranking by summed log-probabilities, and the thresholded masks."""
    probe, last = fitted.probe, fitted.probe.depth_count - 1
    seen, few = (_see(fitted.model, task, task.test[:count]) for count in (size.test, size.oracle))
    votes, baseline = probe(seen.reading, last), probe.baseline(last)
    assert baseline is not None  # images are never knocked out
    keep, site = votes.hard_keep(), probe.site_name(last)
    sides, found = judge_ranking(votes.log_keep().cpu(), task.red(task.test))
    found |= judge_mask(keep.cpu(), sides) | judge_prediction(seen, site, keep, baseline, MARGIN)
    found |= judge_gap(few, site, keep[: size.oracle], baseline, MARGIN)
    found |= judge_recoloured(fitted.model.model, task, task.test, keep, sides, seed)
    found |= {"restarts": sum(fitted.restarts), "multiplier": fitted.history[-1]["multiplier"][last]}
    return {**found, "masks": as_lines(keep)}


def rival_rows(model: Adapter, task: PatchCounting, job: Job, size: Size) -> list[dict[str, Any]]:
    """Judge the rivals at the input, with the mean of the states in place of a missing patch, and the ranking too."""
    states = survey(model, task, [task.collate(task.train[:512]).to(model.device)])
    batch, red = task.collate(task.test).to(model.device), task.red(task.test)
    question = Question(model, task, batch, 0, states.means[0])
    rows = [rival_row(name, _seeded(name, job.seed), question, task, red) for name in NAMES]
    ranking = fit(model, task, recipe("ranking", seed=job.seed, batch_size=64, steps=size.steps))
    return [*rows, rival_row("ranking", RankScores(ranking.probe, DEPTHS - 1), question, task, red)]


def rival_row(name: str, method: Method, question: Question, task: PatchCounting, red: Tensor) -> dict[str, Any]:
    """Judge one method by its ranking, and by its scores cut in the middle."""
    scores = method(question).cpu()
    sides, found = judge_ranking(scores, red)
    keep = as_mask(scores)
    found |= judge_mask(keep, sides) | judge_recoloured(question.model.model, task, task.test, keep, sides, 0)
    return {"method": name, **found, "masks": as_lines(keep)}


def _seeded(name: str, seed: int) -> Method:
    made: Method = METHODS.get(name)(**({"seed": seed} if name in ("rise", "random") else {}))
    return made


def _see(model: Adapter, task: PatchCounting, rows: range) -> Look:
    with model.frozen():
        return look(model, task, task.collate(rows).to(model.device))


def summarise(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Reduce the rows to the figures the study is judged by."""
    ours, right, released = ([row for row in rows if row["method"] == part] for part in (OURS, RIGHT, RELEASED))
    named = [row for row in rows if "converged" not in row]
    return {
        "starts": len(ours),
        "converged": _converged(ours),
        "auroc_min": min(row["auroc"] for row in ours),
        "exact_min": min(row["exact"] for row in ours),
        "published_converged": _converged(right),
        "released_sign_converged": _converged(released),
        "published_starts": len(right),
        "rivals": {
            name: {
                key: mean(row[key] for row in named if row["method"] == name)
                for key in ("auroc", "auroc_free", "exact")
            }
            for name in dict.fromkeys(row["method"] for row in named)
        },
    }


def _converged(rows: Sequence[Mapping[str, Any]]) -> int | None:
    return sum(bool(row["converged"]) for row in rows) if rows else None


def _line(job: Job, rows: Sequence[Mapping[str, Any]]) -> str:
    best = max(rows, key=lambda row: row["auroc"])
    start = f" from {job.start}" if job.start else ""
    return f"{job.part}{start}, seed {job.seed}: {best['method']} AUROC {best['auroc']:.3f}, exact {best['exact']:.3f}"
