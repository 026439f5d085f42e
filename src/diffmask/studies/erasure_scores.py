"""How near a mask comes to the smallest sets that exact search found (De Cao et al. 2020, Table 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from jaxtyping import Bool
from torch import Tensor

from ..attribution.erasure import Found

OURS = "diffmask, best, dropped"
DEFINITIONS = {
    "constraint": "a set keeps the prediction if KL(original ‖ masked) ≤ margin; the decision itself may change. The "
    "same for the search and for every method",
    "removed": "a removed word's embedding is replaced by zeros at its place",
    "units": "words; there are no special tokens, and every word may be removed",
    "optimum": "every set of the smallest size that keeps the prediction, found by exact search",
    "left out": "sentences whose prediction is kept without any word, and sentences whose search was not complete",
    "threshold": "a word is kept if its gate is open with probability above one half",
    "f1": "of the kept words against an optimum, averaged over sentences: the optimum that fits the mask best, with "
    "its precision and recall; first_f1 is against the first optimum in the order of the words",
    "optimality": "share of sentences whose mask keeps the prediction and is as small as an optimum",
    "l0": "mean share of words kept",
    "best": "of three searches with different noise, the smallest mask that holds: PerExample(restarts=3)",
    "dropped": "PerExample(polish='drop'): words are added back by score until the set holds, then those missed least "
    "are dropped while it does, all measured on the model; no answer of the exact search is used",
    "exchanged": "PerExample(polish='exchange'): and two kept words are exchanged for one other while the set holds",
    "unit of figures": "per cent",
    "classifier": "one GRU, trained on the phrases of the treebank's training sentences with its own embeddings; the "
    "paper's reads frozen BERT embeddings",
    "settings": "λ's gains and the number of steps were chosen on 40 of the dev sentences",
}


@dataclass(frozen=True)
class Scores:
    """The figures of one mask."""

    precision: float
    recall: float
    f1: float
    first_f1: float
    optimality: float
    l0: float
    feasible: float


def score_mask(keep: Bool[Tensor, " unit"], found: Found, holds: bool) -> Scores:
    """Compare the mask of one sentence, without padding, with the optima of its search."""
    hits = (found.sets & keep).sum(1).float()
    count = int(keep.sum())
    f1 = 2 * hits / (count + found.size)
    best = int(f1.argmax())
    return Scores(
        precision=float(hits[best]) / max(count, 1),
        recall=float(hits[best]) / found.size,
        f1=float(f1[best]),
        first_f1=float(f1[0]),
        optimality=float(holds and count == found.size),
        l0=count / len(keep),
        feasible=float(holds),
    )


def score_masks(
    keep: Bool[Tensor, "sentence unit"], holds: Bool[Tensor, " sentence"], searched: Sequence[Found]
) -> dict[str, float]:
    """Average the figures of all sentences in which there is something to find, in per cent."""
    rows, kept = holds.tolist(), keep.cpu()
    scored = [
        score_mask(kept[row, : found.sets.shape[1]], found, rows[row])
        for row, found in enumerate(searched)
        if counts(found)
    ]
    names = Scores.__annotations__
    return {name: 100 * mean(getattr(one, name) for one in scored) if scored else 0.0 for name in names}


def counts(found: Found) -> bool:
    """Say whether a search ended, with at least one unit in its answer."""
    return found.complete and found.size > 0


def summarise(rows: Sequence[Mapping[str, Any]], margins: Sequence[float]) -> dict[str, Any]:
    """Reduce the rows to the figures the study is judged by: at the first margin, and as strict_ at the second."""
    main, strict = (_of_margin(rows, margin) for margin in margins)
    return {**main, **{f"strict_{name}": value for name, value in strict.items()}}


def _of_margin(rows: Sequence[Mapping[str, Any]], margin: float) -> dict[str, Any]:
    def average(method: str, name: str) -> float:
        return mean(row[name] for row in rows if row["method"] == method and row["margin"] == margin)

    ours = {name: average(OURS, name) for name in ("f1", "precision", "recall", "optimality", "l0")}
    return {
        "sentences": average("exact", "sentences"),
        **ours,
        "first_f1": average(OURS, "first_f1"),
        "unpolished_f1": average("diffmask", "f1"),
        "unpolished_optimality": average("diffmask", "optimality"),
        "unpolished_best_f1": average("diffmask, best", "f1"),
        "unpolished_best_optimality": average("diffmask, best", "optimality"),
        "exchanged_f1": average("diffmask, best, exchanged", "f1"),
        "exchanged_optimality": average("diffmask, best, exchanged", "optimality"),
        "reinforce_f1": average("reinforce", "f1"),
        "reinforce_optimality": average("reinforce", "optimality"),
        "reinforce_dropped_f1": average("reinforce, best, dropped", "f1"),
        "reinforce_dropped_optimality": average("reinforce, best, dropped", "optimality"),
        "all_dropped_f1": average("all words, dropped", "f1"),
        "all_dropped_optimality": average("all words, dropped", "optimality"),
        "all_exchanged_f1": average("all words, exchanged", "f1"),
        "all_exchanged_optimality": average("all words, exchanged", "optimality"),
        "exact_l0": average("exact", "l0"),
        "searched_completely": average("exact", "complete"),
    }
