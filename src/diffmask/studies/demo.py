"""The demo: sentences explained by the embedded model's probe, and what rivals would have kept in its place.

Each rival keeps as many units as the probe does in the same sentence, those it scores highest, and the rest goes to the
same baseline at the same site. That baseline was fitted with the probe, which is to the probe's advantage.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..attribution import METHODS
from ..attribution.method import Method, Question
from ..attribution.probe import ProbeScores
from ..attribution.random import Random
from ..explaining.certify import highest
from ..explaining.explain import explain
from ..explaining.verify import measure
from ..explanation import Explanation
from ..objective.divergence import agreement
from ..report.plain import kept_at, record
from ..training.fit import Fit
from ..training.step import Look, look
from .result import write_result

OURS = "probe"
RIVALS = ("leave-one-out", "integrated-gradients", "gradient-input", "attention")
REPEATS = 3  # of every timed call; the shortest counts, as whatever else the machine does only adds

SENTENCES = (
    "A fast, funny, highly enjoyable movie.",
    "The acting is superb, but the script is a tedious mess.",
    "This is not a good film.",
    "It is never boring and never less than charming.",
    "I did not expect to like it, and yet I laughed from start to finish.",
    "Dull.",
    "A gorgeous, moving and quietly devastating portrait of a family.",
    "The plot makes no sense, the jokes fall flat, and the ending is an insult.",
    "The film was shot in Paris over three weeks.",
    "Hardly anyone could fail to be moved by this wonderful story.",
    "For all its beautiful pictures, the film has nothing to say.",
    "Despite a slow first half, it grows into something truly special.",
    "You will want your money back.",
    "It is two hours long, it stars two brothers, and it is set in a small town by the sea.",
    "There is nothing wrong with a little silly fun, and this is very silly and a lot of fun.",
    "An ugly, pointless, stupid waste of a talented cast.",
    "Too long by an hour, too clever by half, and too pleased with itself to care.",
    "The best thing about it is that it ends.",
    "Not without flaws, but honest, warm and deeply human.",
    "What begins as a promising thriller, with a fine cast and a clever premise, slowly loses its nerve and ends as "
    "one more loud, lifeless and predictable chase.",
)


def compare_all(fitted: Fit, sentences: Sequence[str] = SENTENCES) -> Iterator[dict[str, Any]]:
    """Explain the sentences one by one, and compare each explanation with its rivals."""
    compare(fitted, sentences[0])  # the first call of everything is slower, and would count as a method's time
    for number, sentence in enumerate(sentences):
        yield compare(fitted, sentence, number)


def compare(fitted: Fit, sentence: str, number: int = 0) -> dict[str, Any]:
    """Explain a sentence, and measure what every method would keep of it."""
    explanation = explain(fitted, [sentence])[0]
    with fitted.model.frozen():
        seen = look(fitted.model, fitted.task, fitted.task.collate([sentence]).to(fitted.model.device))
        rows = [
            {"sentence": number, **_row(fitted, seen, name, method, explanation)}
            for name, method in methods(fitted, number).items()
        ]
    rivals = _rivals(rows)
    shares = [mean(kept_at(explanation, depth)) for depth in range(len(explanation.depths))]
    return {"explanation": {**record(explanation, sentence), "rivals": rivals}, "kept_by_depth": shares, "rows": rows}


def _rivals(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Take the scores out of the rows, for the report, and write times as multiples of ours."""
    ours = rows[0]["seconds"]
    for row in rows:
        row["time_ratio"] = row.pop("seconds") / ours
    scores = [(row.pop("scores"), row.pop("kept")) for row in rows]
    return [
        {**{key: row[key] for key in ("method", "divergence", "same_prediction")}, "scores": given, "kept": kept}
        for row, (given, kept) in zip(rows[1:], scores[1:], strict=True)
    ]


def methods(fitted: Fit, seed: int) -> dict[str, Method]:
    """Name the methods that are compared, ours first."""
    rivals = {name: METHODS.get(name)() for name in RIVALS}
    return {OURS: ProbeScores(fitted.probe), **rivals, "random": Random(seed)}


def _row(fitted: Fit, seen: Look, name: str, method: Method, explanation: Explanation) -> dict[str, Any]:
    """Keep a method's highest units, as many as the probe kept, and run the model on them alone."""
    depth = explanation.depth
    question = Question(
        fitted.model, fitted.task, seen.batch, fitted.probe.site_index(depth), _baseline(fitted, depth), depth
    )
    scores, seconds = _timed(method, question)
    keep = highest(scores, seen.batch.valid, explanation.kept.sum().view(1).to(scores.device))
    measured = measure(fitted, seen, depth, keep)
    return {
        "method": name,
        "divergence": float(measured.divergence[0]),
        "same_prediction": bool(agreement(seen.original, measured.masked)[0] == 1),
        "seconds": seconds,
        "scores": [float(f"{score:.4g}") for score in scores[0][seen.batch.valid[0]].tolist()],
        "kept": keep[0][seen.batch.valid[0]].bool().tolist(),
    }


def _baseline(fitted: Fit, depth: int) -> Tensor | None:
    baseline = fitted.probe.baseline(depth)
    return None if baseline is None else baseline.detach()


def _timed(method: Method, question: Question) -> tuple[Float[Tensor, "batch unit"], float]:
    scores, times = torch.empty(0, 0), []
    for _ in range(REPEATS):
        began = time.perf_counter()
        scores = method(question)
        times.append(time.perf_counter() - began)
    return scores, min(times)


def summarise(rows: Sequence[Mapping[str, Any]], margin: float) -> dict[str, dict[str, Any]]:
    """Reduce the rows to one line per method, ours first."""
    names = list(dict.fromkeys(row["method"] for row in rows))
    by_method = {name: [row for row in rows if row["method"] == name] for name in names}
    return {name: _line(found, by_method[OURS], margin) for name, found in by_method.items()}


def _line(found: Sequence[Mapping[str, Any]], ours: Sequence[Mapping[str, Any]], margin: float) -> dict[str, Any]:
    gaps = [row["divergence"] - our["divergence"] for row, our in zip(found, ours, strict=True)]
    return {
        "divergence": mean(row["divergence"] for row in found),
        "within_margin": sum(row["divergence"] <= margin for row in found),
        "same_prediction": sum(row["same_prediction"] for row in found),
        "gap": mean(gaps),
        "gap_error": stdev(gaps) / len(gaps) ** 0.5 if len(gaps) > 1 else math.inf,  # standard error of the mean
        "time_ratio": median(row["time_ratio"] for row in found),
    }


def write_demo(path: Path, found: Sequence[Mapping[str, Any]], fitted: Fit, command: str) -> dict[str, Any]:
    """Write what was found, and return it as written."""
    rows = [row for one in found for row in one["rows"]]
    margin, explanations = fitted.config.objective.margin, [one["explanation"] for one in found]
    summary = {
        "sentences": len(found),
        "verified": sum(one["verification"]["within_margin"] for one in explanations),
        "kept_by_depth": [mean(shares) for shares in zip(*(one["kept_by_depth"] for one in found), strict=True)],
        "methods": summarise(rows, margin),
    }
    return write_result(path, "demo", command, [0], summary, rows, margin=margin, explanations=explanations)
