"""Digit counting (De Cao et al. 2020, §3.1, Table 1, Figures 3 and 11): a task where the right explanation is known.

Each seed trains its own model and explains it with every method; depth 0 must keep everything, depth 1 exactly the
query digits. Methods that search a mask are given the baseline that our probe found; those that score without one, the
mean of the states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor

from ..attribution.bottleneck import Bottleneck
from ..attribution.erasure import ExactErasure
from ..attribution.gradient_input import GradientInput
from ..attribution.guan import Guan
from ..attribution.integrated_gradients import IntegratedGradients
from ..attribution.leave_one_out import LeaveOneOut
from ..attribution.method import Method, Question
from ..attribution.per_example import PerExample
from ..attribution.probe import ProbeScores
from ..attribution.random import Random
from ..attribution.uniform import Uniform
from ..evaluation.ground_truth import divergence_to_truth
from ..models.adapter import Adapter
from ..models.digit_counter import adapt_digit_counter
from ..objective.divergence import agreement, divergence
from ..objective.objective import ObjectiveConfig
from ..objective.sparsity import mean_over_units
from ..settings import change
from ..tasks.digits import DigitCounting, labels, truth
from ..training.config import FitConfig, recipe
from ..training.fit import Fit, fit
from ..training.free import FreeConfig
from ..training.start import survey
from ..training.step import look
from ..types import Batch
from .counter import train_counter
from .result import write_result
from .seeds import made_with, run_seeds
from .setup import News, Setup

MARGIN, BATCH_SIZE, GOOD = 0.05, 128, 0.04
OURS, RIVALS, AT_INPUT = "diffmask", "rivals", ", at the input"
MASKS = ("per-example", "erasure")  # whose scores are probabilities of being kept, so that a half is a threshold


@dataclass(frozen=True)
class Size:
    """How long everything is trained; the small one is for a demo, not for figures."""

    epochs: int = 50
    steps: int = 4500
    published_steps: int = 7000
    search_steps: int = 500


FULL, SMALL = Size(), Size(epochs=20, steps=3000, published_steps=0, search_steps=200)


def run(setup: Setup) -> News:
    """Run both recipes with every seed, saying so as each ends; last comes the result as written."""
    size, work = SMALL if setup.small else FULL, setup.work("digits")
    jobs = [Job(part, seed) for part in (*configs(size), RIVALS) for seed in range(setup.seeds)]
    yield len(jobs)
    done = {}
    run_one = partial(run_job, jobs, size)
    for number, found in run_seeds(run_one, range(len(jobs)), work, repr((size, jobs)), setup.jobs, setup.take_over):
        done[number] = found
        yield f"{jobs[number].part}, seed {jobs[number].seed}{_line(found['rows'])}"
    ordered = [done[number] for number in sorted(done)]
    rows = [row for found in ordered for row in found["rows"]]
    more = {"margin": MARGIN, "good": GOOD, "figures": ordered[0]["figures"], "made_with": made_with(work, len(jobs))}
    yield write_result(setup.output, "digits", setup.command, range(setup.seeds), summarise(rows), rows, **more)


@dataclass(frozen=True)
class Job:
    """A recipe to fit to the model of a seed, or the rivals to score on it."""

    part: str
    seed: int


def run_job(jobs: Sequence[Job], size: Size, number: int) -> dict[str, Any]:
    """Train the model of a seed and score one part of the methods on it against the truth."""
    job, task = jobs[number], DigitCounting()
    counter, accuracy = train_counter(task, job.seed, size.epochs)
    model = adapt_digit_counter(counter)
    found = rival_part(model, task, job.seed, size) if job.part == RIVALS else fit_part(model, task, job, size)
    for row in found["rows"]:
        row |= {"seed": job.seed, "model_accuracy": accuracy}
    return found


def fit_part(model: Adapter, task: DigitCounting, job: Job, size: Size) -> dict[str, Any]:
    """Fit a recipe and score it; ours with the methods beside it that search a mask or know nothing."""
    fitted = fit_probe(model, task, configs(size)[job.part], job.seed)
    batch = task.collate(task.test)
    rows = [fit_row(job.part, fitted, batch, depth) for depth in (0, 1)]
    if job.part != OURS:
        return {"rows": rows, "figures": {}}
    question = _question(fitted, batch, 1)
    rows += [rival_row(name, method, question) for name, method in searches(job.seed, size).items()]
    rows += [analytic_row(batch), truth_row(fitted, batch)]
    return {"rows": rows, "figures": {} if job.seed else figures(fitted, job.seed, size)}


def rival_part(model: Adapter, task: DigitCounting, seed: int, size: Size) -> dict[str, Any]:
    """Score the rivals at our site and, as the paper does, at the input."""
    batch, states = task.collate(task.test), survey(model, task, [task.collate(task.train)])
    inputs, ours = (Question(model, task, batch, site, states.means[site]) for site in (0, 1))
    rows = [rival_row(name, method, ours) for name, method in rivals(seed, size).items()]
    rows += [rival_row(f"{name}{AT_INPUT}", method, inputs) for name, method in rivals(seed, size).items()]
    return {"rows": rows, "figures": {}}


def configs(size: Size) -> dict[str, FitConfig]:
    """Name the recipes that are compared: ours and, in a full run, the published one."""
    ours = recipe(kind="hidden", margin=MARGIN, batch_size=BATCH_SIZE, steps=size.steps)
    published = recipe("published", kind="hidden", margin=MARGIN, steps=size.published_steps or 1)
    return {OURS: ours, "published": published} if size.published_steps else {OURS: ours}


def fit_probe(model: Adapter, task: DigitCounting, config: FitConfig, seed: int) -> Fit:
    return fit(model, task, change(config, {"seed": seed}))


def searches(seed: int, size: Size) -> dict[str, Method]:
    """Name the methods that search a mask, and those that know nothing."""
    objective = ObjectiveConfig(margin=MARGIN)
    return {
        "per-example": PerExample(objective, FreeConfig(steps=size.search_steps, seed=seed)),
        "erasure": ExactErasure(margin=MARGIN),
        "uniform": Uniform(),
        "random": Random(seed),
    }


def rivals(seed: int, size: Size) -> dict[str, Method]:
    """Name the rivals of the paper's Table 1, and two more."""
    return {
        "integrated-gradients": IntegratedGradients(),
        "bottleneck": Bottleneck(score="share", steps=size.search_steps, seed=seed),
        "guan": Guan(steps=size.search_steps, seed=seed),
        "gradient-input": GradientInput(),
        "leave-one-out": LeaveOneOut(),
    }


def fit_row(name: str, fitted: Fit, batch: Batch, depth: int) -> dict[str, Any]:
    """Score a fitted probe: its probabilities against the truth, its thresholded masks against the model."""
    question = _question(fitted, batch, depth)
    scores = ProbeScores(fitted.probe)(question)
    return {
        "method": name,
        "depth": depth,
        **_against_truth(scores, batch, depth),
        **_masked(question, scores > 0.5),
        "expected_kept": float(mean_over_units(scores, batch.valid).mean()),
        "restarts": fitted.restarts[depth],
    }


def rival_row(name: str, method: Method, question: Question) -> dict[str, Any]:
    """Score a method against the query digits, wherever it is asked."""
    scores = method(question)
    row = {"method": name, "depth": 1, **_against_truth(scores, question.batch, 1)}
    return row | _masked(question, scores > 0.5) if name in MASKS else row


@torch.no_grad()
def _masked(question: Question, keep: Tensor) -> dict[str, float]:
    """Measure a method's thresholded masks as the probe's are measured."""
    seen = look(question.model, question.task, question.batch)
    prediction = seen.masked_at(question.site_name, keep, question.baseline)
    return {
        "kept": float(mean_over_units(keep, question.batch.valid).mean()),
        "divergence": float(divergence(seen.original, prediction).mean()),
        "agreement": float(agreement(seen.original, prediction).mean()),
    }


def analytic_row(batch: Batch) -> dict[str, Any]:
    """The erasure row of the paper, which is not searched: the first unit that supports the right answer."""
    asked = torch.where(labels(batch).bool(), batch.inputs["query"][:, 0], batch.inputs["query"][:, 1])
    support = (batch.inputs["digits"] == asked.unsqueeze(1)) & batch.valid
    first = support & (support.cumsum(1) == 1)
    return {"method": "erasure-published", "depth": 1, **_against_truth(first.float(), batch, 1)}


def truth_row(fitted: Fit, batch: Batch) -> dict[str, Any]:
    """The truth itself, run with the fitted baseline: what no method can beat."""
    right = truth(batch, 1)
    return {"method": "truth", "depth": 1, "kl": 0.0, "js": 0.0, **_masked(_question(fitted, batch, 1), right)}


def _question(fitted: Fit, batch: Batch, depth: int) -> Question:
    return Question(fitted.model, fitted.task, batch, depth, fitted.probe.baselines(depth).detach())


def _against_truth(scores: Tensor, batch: Batch, depth: int) -> dict[str, float]:
    found = divergence_to_truth(scores, truth(batch, depth), batch.valid)
    spread = {"kl_std": float(found.kl.std()), "js_std": float(found.js.std())}
    return {"kl": float(found.kl.mean()), "js": float(found.js.mean()), **spread}


def summarise(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Reduce the rows to the figures the study is judged by."""
    ours = [row for row in rows if row["method"] == "diffmask"]
    first, second = ([row for row in ours if row["depth"] == depth] for depth in (0, 1))
    published = [row for row in rows if row["method"] == "published" and row["depth"] == 1]
    return {
        "seeds": len(second),
        "kl_median": median(row["kl"] for row in second),
        "kl_worst": max(row["kl"] for row in second),
        "js_median": median(row["js"] for row in second),
        "depth0_kept_min": min(min(row["kept"], row["expected_kept"]) for row in first),
        "agreement_min": min(row["agreement"] for row in ours),
        "divergence_over_margin_max": max(row["divergence"] for row in ours) / MARGIN,
        "good_seeds": sum(row["kl"] <= GOOD for row in second),
        "published_good_seeds": sum(row["kl"] <= GOOD for row in published) if published else None,
        "restarts": sum(row["restarts"] for row in ours),
    }


def _line(rows: Sequence[Mapping[str, Any]]) -> str:
    first = next(row for row in rows if row["depth"] == 1)
    return f": {first['method']} KL {first['kl']:.3f}"


def figures(fitted: Fit, seed: int, size: Size) -> dict[str, Any]:
    """Collect what Figures 3 and 11 show: one example by every method, and the 2-d states with their gates."""
    return {"attribution": _attribution_figure(fitted, seed, size), "clusters": _clusters_figure(fitted)}


def _attribution_figure(fitted: Fit, seed: int, size: Size) -> dict[str, Any]:
    """The example of the paper's Figure 3: query 8 and 1, sequence 8 8 3 1 3 9."""
    digits = torch.tensor([[8, 8, 3, 1, 3, 9]])
    inputs = {"query": torch.tensor([[8, 1]]), "digits": digits, "length": torch.tensor([6])}
    batch = Batch(inputs, torch.ones(1, 6, dtype=torch.bool))
    methods = {**searches(seed, size), **rivals(seed, size), "diffmask": ProbeScores(fitted.probe)}
    scores = {name: method(_question(fitted, batch, 1)) for name, method in methods.items()}
    scores["diffmask, depth 0"] = methods["diffmask"](_question(fitted, batch, 0))
    return {
        "query": [8, 1],
        "units": [str(digit) for digit in digits[0].tolist()],
        "scores": {name: (value[0] / value[0].sum()).tolist() for name, value in scores.items()},
    }


@torch.no_grad()
def _clusters_figure(fitted: Fit, examples: int = 60) -> dict[str, Any]:
    batch = fitted.task.collate(fitted.task.validation[:examples])
    seen = look(fitted.model, fitted.task, batch)
    keep = fitted.probe(seen.reading, 1).keep_probability()
    query, digits = batch.inputs["query"], batch.inputs["digits"]
    role = torch.where(digits == query[:, :1], 0, torch.where(digits == query[:, 1:], 1, 2))
    state = seen.states[fitted.probe.site_names[1]]
    return {
        "states": state[batch.valid].tolist(),
        "roles": role[batch.valid].tolist(),
        "role_names": ["first query digit", "second query digit", "other digit"],
        "keep": keep[batch.valid].tolist(),
        "baseline": fitted.probe.baselines(1).tolist(),
    }
