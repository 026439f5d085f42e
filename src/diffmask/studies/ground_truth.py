"""Who is right: every attribution method on tasks where the right explanation is known, a fresh model for each seed.

Formulas, texts with a planted shortcut (Bastings et al. 2022), and a transformer written by hand, in which each layer
moves one thing. All methods are asked the same question with the same baseline; one that a model cannot serve is left
out, and why is written down.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

import torch

from ..attribution import METHODS
from ..attribution.method import Method
from ..errors import DiffMaskError, ModelError, SettingError
from ..objective.objective import ObjectiveConfig
from ..training.fit import Fit, fit
from ..training.free import FreeConfig
from .ground_truth_problems import PROBLEMS, Asked, Problem, Size
from .ground_truth_scores import average_precision, score
from .ground_truth_summary import summarise
from .planted_model import PlantedSize
from .result import write_result
from .seeds import made_with, run_seeds
from .setup import News, Setup

FULL = Size()
SMALL = Size(8, 200, 20, PlantedSize(1200, epochs=3, width=16, layers=1, batch_size=32), 10, 10, 5, 40)

Row = dict[str, Any]


def run(setup: Setup) -> News:
    """Run every problem with every seed, saying so as each ends; last comes the result as written."""
    size, work = SMALL if setup.small else FULL, setup.work("ground-truth")
    jobs = [(name, seed) for seed in range(setup.seeds) for name in PROBLEMS]
    yield len(jobs)
    done = {}
    settings = repr((size, jobs, METHODS.names))
    run_one = partial(run_job, jobs, size)
    longest_first = range(len(jobs))[::-1]
    for number, found in run_seeds(run_one, longest_first, work, settings, setup.jobs, setup.take_over):
        done[number] = found
        yield f"{jobs[number][0]}, seed {jobs[number][1]}: {_line(found)}"
    ordered = [done[number] for number in sorted(done)]
    rows, skipped = ([row for found in ordered for row in found[key]] for key in ("rows", "skipped"))
    more = {
        "skipped": skipped,
        "checks": [found["checks"] for found in ordered if found["checks"]],
        "made_with": made_with(work, len(jobs)),
    }
    yield write_result(
        setup.output, "ground-truth", setup.command, range(setup.seeds), summarise(rows, skipped), rows, **more
    )


def run_job(jobs: Sequence[tuple[str, int]], size: Size, number: int) -> dict[str, Any]:
    """Build one problem, fit a probe to it, and score every method; a refused model is no row but a reason."""
    name, seed = jobs[number]
    try:
        problem = PROBLEMS[name](seed=seed, size=size)
    except ModelError as error:
        return {"rows": [], "skipped": [{"task": name, "method": "all", "seed": seed, "why": str(error)}], "checks": {}}
    rows, skipped = explain(problem, seed, size)
    checks = {"task": name, "seed": seed, **problem.checks} if problem.checks else {}
    return {"rows": rows, "skipped": skipped, "checks": checks}


def explain(problem: Problem, seed: int, size: Size) -> tuple[list[Row], list[Row]]:
    """Ask every method of the table everything that is asked; return the rows, and what could not be asked."""
    began = time.perf_counter()
    fitted = fit(problem.model, problem.task, problem.config)
    seconds = time.perf_counter() - began
    rows, skipped = [], []
    for asked in problem.asked:
        for name in METHODS.names:
            about = {"task": asked.name, "method": name, "seed": seed}
            try:
                method = make_method(name, fitted, seed, size)
                rows.append({**about, **_row(asked, name, method, fitted, problem.margin)})
            except DiffMaskError as error:
                skipped.append({**about, "why": str(error)})
        rows[_of_probe(rows, asked)] |= _fit_figures(fitted, asked, seconds / len(problem.asked))
    return rows, skipped


def make_method(name: str, fitted: Fit, seed: int, size: Size) -> Method:
    """Make a method with the settings of this study that it knows, and its own for the rest."""
    kind, margin = METHODS.get(name), fitted.config.objective.margin
    given: dict[str, Any] = {
        **({"probe": fitted.probe} if name == "probe" else {}),  # a ranking reads other states
        "seed": seed,
        "margin": margin,
        "objective": ObjectiveConfig(margin=margin),
        "search": FreeConfig(steps=size.search_steps, seed=seed),
        "samples": size.samples,
    }
    known = {field.name for field in fields(kind)}
    if {"steps", "learning_rate"} <= known:  # the steps of a search, not the points of a path
        given["steps"] = size.search_steps
    try:
        return kind(**{key: value for key, value in given.items() if key in known})
    except TypeError as error:
        raise SettingError(f"method '{name}' needs a setting this study does not have ({error})") from error


def _row(asked: Asked, name: str, method: Method, fitted: Fit, margin: float) -> Row:
    question = asked.question
    if name == "probe":  # an input probe masks the input whatever it reads, and reads most at its last depth
        question = replace(question, depth=asked.probe_depth)
    began = time.perf_counter()
    scores = method(question).detach()
    seconds = time.perf_counter() - began
    row = {**score(asked.question, scores, asked.truth, margin), "examples": len(scores), "seconds": seconds}
    return row | _against_knowable(asked, scores) if asked.knowable is not None else row


def _against_knowable(asked: Asked, scores: torch.Tensor) -> Row:
    """Compare with what can be known at a depth: the order, and the share of units on the right side of a half."""
    assert asked.knowable is not None
    valid = asked.question.batch.valid
    right = ((scores > 0.5) == asked.knowable)[valid].float().mean()
    return {
        "knowable_ap": average_precision(scores, asked.knowable, valid),
        "knowable_units_right": float(right),
    }


def _fit_figures(fitted: Fit, asked: Asked, seconds: float) -> Row:
    """Say whether the fitted masks hold the margin on validation examples, which no truth is needed for."""
    found = fitted.scores[asked.probe_depth]
    feasible = found.feasible(fitted.config.objective)
    return {"feasible": feasible, "kept": found.kept, "divergence": found.divergence, "fit_seconds": seconds}


def _of_probe(rows: Sequence[Mapping[str, Any]], asked: Asked) -> int:
    return next(i for i, row in enumerate(rows) if (row["task"], row["method"]) == (asked.name, "probe"))


def _line(found: Mapping[str, Any]) -> str:
    if not found["rows"]:
        return str(found["skipped"][0]["why"])
    ours = [f"{row['ap']:.3f}" for row in found["rows"] if row["method"] == "probe"]
    return f"probe's average precision {', '.join(ours)}"
