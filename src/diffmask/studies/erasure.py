"""Masks against exact erasure search (De Cao et al. 2020, Table 2): does a learned mask find the smallest set?

Each seed trains a GRU on the sentiment treebank. For every short dev sentence all smallest sets of words that keep its
prediction are searched, exactly; the masks of DiffMask and REINFORCE without amortisation are compared with them. The
paper leaves open what its columns mean: `definitions` in the result says what ours do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor

from ..attribution.erasure import ExactErasure, Found, search
from ..attribution.method import Question
from ..attribution.per_example import PerExample
from ..attribution.reinforce import Reinforce
from ..masking.precision import full_precision
from ..models.adapter import Adapter
from ..models.word_gru import adapt_word_gru
from ..objective.constraint import Constraint
from ..objective.lagrangian import ControllerConfig
from ..objective.objective import ObjectiveConfig
from ..tasks.sst import read_sst
from ..tasks.words import WordTask
from ..training.free import FreeConfig
from ..training.polish import Polish
from ..training.step import look
from .erasure_scores import DEFINITIONS, OURS, counts, score_masks, summarise
from .result import write_result
from .seeds import run_seeds
from .setup import News, Setup
from .trained import device
from .word_model import train_word_model

MARGINS = (0.1, 0.02)  # the released code's, and one at which optima keep as much as the paper's masks do
RESTARTS = 3
LONGEST = 25  # words of a sentence, as in the paper
PUBLISHED = {
    "diffmask": {"precision": 81.26, "recall": 85.89, "f1": 80.75, "optimality": 32.67, "l0": 30.58},
    "reinforce": {"precision": 74.69, "recall": 80.82, "f1": 73.57, "optimality": 8.83, "l0": 33.13},
}
# With one noisy mask a step, a part of λ that acts at once passes the noise on; a λ that remembers does not.
CONTROLLER = ControllerConfig(integral=0.03, proportional=0.01)


@dataclass(frozen=True)
class Size:
    """How much is trained and searched; the small one shows that everything runs."""

    epochs: int = 4
    steps: int = 1000
    train: int | None = None
    sentences: int | None = None
    masked: int = 200  # of them, evenly spaced, for which masks are learned; the strict margin is asked of these alone
    longest: int = LONGEST


FULL, SMALL = Size(), Size(epochs=2, steps=200, train=1500, sentences=20, masked=20, longest=14)


def run(setup: Setup) -> News:
    """Run every seed, saying so as each ends; last comes the result as written."""
    size, work, data = SMALL if setup.small else FULL, setup.work("erasure"), setup.find_data("sst")
    read_sst(data, "dev")  # at once, if it cannot be read
    yield setup.seeds
    done: dict[int, list[dict[str, Any]]] = {}
    run_one = partial(run_seed, size=size, data=data)
    for seed, found in run_seeds(run_one, range(setup.seeds), work, repr(size), setup.jobs, setup.take_over):
        done[seed] = found["rows"]
        yield f"seed {seed}: {_line(found['rows'])}"
    rows = [row for seed in sorted(done) for row in done[seed]]
    more = {"margins": MARGINS, "definitions": DEFINITIONS, "published": PUBLISHED}
    summary = {"seeds": len(done), **summarise(rows, MARGINS)}
    yield write_result(setup.output, "erasure", setup.command, sorted(done), summary, rows, **more)


def run_seed(seed: int, size: Size, data: Path) -> dict[str, Any]:
    """Train one classifier, search its sentences exactly, and compare every method with what was found."""
    train, dev = read_sst(data, "train")[: size.train], read_sst(data, "dev")
    trained = train_word_model(train, dev, seed, size.epochs)
    texts = [sentence.text for sentence in dev if len(sentence.words) <= size.longest][: size.sentences]
    task = WordTask(trained.vocabulary, [sentence.text for sentence in train], texts)
    model = adapt_word_gru(trained.model.to(device()))
    with full_precision():
        rows = [row for margin in MARGINS for row in margin_rows(model, task, texts, margin, seed, size)]
    return {"rows": [{"seed": seed, "model_accuracy": trained.accuracy, **row} for row in rows]}


def margin_rows(
    model: Adapter, task: WordTask, texts: Sequence[str], margin: float, seed: int, size: Size
) -> list[dict[str, Any]]:
    """Search and score everything under one constraint."""
    constraint, count = Constraint(margin, decision=False), min(size.masked, len(texts))
    some = [texts[number * len(texts) // count] for number in range(count)]
    searched = search_all(model, task, texts if margin == MARGINS[0] else some, margin)
    truth, question = [searched[text] for text in some], ask(model, task, some)
    with model.frozen():
        polish = Polish(look(model, task, question.batch), question.site_name, question.baseline, constraint)
        found = []
        for name, keep in masks(question, polish, margin, seed, size).items():
            holds = polish.distance(torch.arange(len(keep), device=keep.device), keep).isfinite()
            found.append({"method": name, "margin": margin, **score_masks(keep, holds, truth)})
    return [exact_row(list(searched.values()), margin), *found]


def search_all(model: Adapter, task: WordTask, texts: Sequence[str], margin: float) -> dict[str, Found]:
    """Search every sentence, alone, for all of its smallest sets."""
    how = ExactErasure(margin, decision=False, smallest=0, most_units=LONGEST)
    found = {text: search(ask(model, task, [text]), how, every=True)[0] for text in texts}
    return {text: replace(one, sets=one.sets.cpu()) for text, one in found.items()}


def ask(model: Adapter, task: WordTask, texts: Sequence[str]) -> Question:
    """Ask which words of some sentences matter, where zeros stand in for a removed one."""
    batch = task.collate(texts).to(model.device)
    width = model.sites[0].module.embedding_dim
    return Question(model, task, batch, 0, torch.zeros(width, device=model.device))


def masks(question: Question, polish: Polish, margin: float, seed: int, size: Size) -> dict[str, Tensor]:
    """Return each method's masks for all sentences: of its first search, of the best of all, and polished."""
    objective = ObjectiveConfig(margin=margin, controller=CONTROLLER)
    everything, found = question.batch.valid, dict[str, Tensor]()
    for name, method in (("diffmask", PerExample), ("reinforce", Reinforce)):
        seeds = range(RESTARTS * seed, RESTARTS * (seed + 1))
        scores = [method(objective, FreeConfig(steps=size.steps, seed=one))(question) for one in seeds]
        found |= {name: scores[0] > 0.5, **ways(f"{name}, best", polish, scores)}
    whole = ways("all words", polish, [everything.float()])
    return found | {name: keep for name, keep in whole.items() if name != "all words"}


def ways(name: str, polish: Polish, scores: Sequence[Tensor]) -> dict[str, Tensor]:
    """Return the smallest masks that hold of several searches: thresholded, dropped and exchanged."""
    plain = [one > 0.5 for one in scores]
    dropped = [polish(keep, one, exchange=False) for keep, one in zip(plain, scores, strict=True)]
    # An exchange goes on from what was dropped: the same moves in the same order, without the first ones twice.
    exchanged = [polish(keep, one) for keep, one in zip(dropped, scores, strict=True)]
    return {
        name: polish.smallest(plain, plain),
        f"{name}, dropped": polish.smallest(dropped, dropped),
        f"{name}, exchanged": polish.smallest(exchanged, exchanged),
    }


def exact_row(searched: Sequence[Found], margin: float) -> dict[str, Any]:
    """Say what the search did, and how large the optima are."""
    counted = [found for found in searched if counts(found)]
    return {
        "method": "exact",
        "margin": margin,
        "sentences": len(counted),
        "nothing_needed": sum(found.size == 0 for found in searched),
        "complete": mean(float(found.complete) for found in searched),
        "tried": sum(found.tried for found in searched),
        "optima": mean(float(len(found.sets)) for found in counted) if counted else 0.0,
        "size": mean(float(found.size) for found in counted) if counted else 0.0,
        "l0": 100 * mean(found.size / found.sets.shape[1] for found in counted) if counted else 0.0,
    }


def _line(rows: Sequence[Mapping[str, Any]]) -> str:
    shown = {row["method"]: row for row in rows if row["margin"] == MARGINS[0] and "f1" in row}
    names = ("diffmask", OURS, "reinforce")
    return "; ".join(f"{name} F1 {shown[name]['f1']:.1f}, optimal {shown[name]['optimality']:.1f} %" for name in names)
