"""Reduce the jobs of the staying-true study to the cells of the tables, and to which claims hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .attentive import faithfulness
from .claims import average, judge, spread
from .staying_true_published import KEEPERS, TABLE1, TABLE2, TABLE3, TABLE6

Job = Mapping[str, Any]
Figure = Callable[[Job], float]
KINDS = ("uniform", "permuted")
UNIFORM = 0.99  # an entropy of attention above it counts as uniform


def table_cells(jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """Return every cell of Tables 1, 2, 3 and 6 and the points of Figure 1: ours over the seeds, theirs beside it."""
    rows: list[dict[str, Any]] = []
    keys = ("dataset", "variant", "alignment", "layers")
    for setting in dict.fromkeys(tuple(job[key] for key in keys) for job in jobs):
        same = [job for job in jobs if tuple(job[key] for key in keys) == setting]
        about = dict(zip(keys, setting, strict=True))
        rows += _drop_rows(about, same) + _word_rows(about, same)
    return rows


def _drop_rows(about: dict[str, Any], jobs: Sequence[Job]) -> list[dict[str, Any]]:
    dataset, variant = about["dataset"], about["variant"]
    table = "1" if about["layers"] == 1 else "6"
    known = TABLE1.get((dataset, about["alignment"])) if table == "1" else TABLE6.get((dataset, about["layers"]))
    f1, uniform, permuted = (known or {}).get(variant, (None, None, None))
    rows = [_cell(about, table, "F1", [job["f1"] for job in jobs], f1)]
    for kind, theirs in (("uniform", uniform), ("permuted", permuted)):
        rows.append(_cell(about, table, f"F1 drop, {kind}", [job[kind]["f1"] for job in jobs], theirs))
        rows.append(_cell(about, table, f"accuracy drop, {kind}", [job[kind]["accuracy"] for job in jobs], None))
    rows.append(_cell(about, table, "entropy of attention", [job["attention_entropy"]["mean"] for job in jobs], None))
    return rows


def _word_rows(about: dict[str, Any], jobs: Sequence[Job]) -> list[dict[str, Any]]:
    dataset, variant, rows = about["dataset"], about["variant"], []
    if about["layers"] == 1 and variant in KEEPERS:
        theirs = TABLE3.get((dataset, about["alignment"]), {}).get(variant)
        for kind, published in (("macro", theirs), ("micro", None)):
            values = [job["word_probability"][kind] for job in jobs]
            rows.append(_cell(about, "3", f"probability by one word, {kind}", values, published))
    for words in ("frequent", "sampled") if "information" in jobs[0] else ():
        theirs = TABLE2.get((dataset, words), {}).get(variant)
        for kind, published in (("plain", theirs), ("shuffled", None), ("corrected", None)):
            values = [job["information"][words][kind] for job in jobs]
            rows.append(_cell(about, "2", f"MI {words}, {kind}", values, published))
    attacked = [job["adversaries"] for job in jobs if "adversaries" in job]  # not every seed is
    for found in zip(*attacked, strict=True):
        for figure in ("divergence", "distance"):
            name = f"{figure} at λ = {found[0]['strength']:g}"
            rows.append(_cell(about, "figure 1", name, [one[figure] for one in found], None))
    return rows


def _cell(
    about: Mapping[str, Any], table: str, figure: str, values: Sequence[float | None], published: float | None
) -> dict[str, Any]:
    found = {"mean": average(values), "spread": spread(values), "values": list(values), "published": published}
    return {"table": table, **about, "figure": figure, **found}


def summarise(jobs: Sequence[Job], seeds: Sequence[int], datasets: Sequence[str]) -> dict[str, Any]:
    """Say which claims hold, and whether DiffMask is more faithful than attention."""
    judged = claims(jobs, datasets)
    return {
        "claims": {name: found["verdict"] for name, found in judged.items()},
        "claim_figures": judged,
        "seeds": list(seeds),
        "datasets": {job["dataset"]: job["data"] for job in jobs},
        "faithfulness": faithfulness([job["faithfulness"] for job in jobs if "faithfulness" in job]),
    }


def claims(jobs: Sequence[Job], datasets: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Judge T1 to T5 of the research file; differences are between classifiers of the same seed."""
    find = _Finder(jobs)
    both, kept = ("additive", "dot"), ("tying", "mlm")
    pairs = [(dataset, alignment, variant) for dataset in datasets for alignment in both for variant in kept]
    drops = {
        f"{d} {a} {v} {kind}": find.gap((d, v, a, 1), (d, "base", a, 1), _drop(kind))
        for d, a, v in pairs
        for kind in KINDS
    }
    loss = {
        f"{d} {a} {v}": average(find.gap((d, v, a, 1), (d, "base", a, 1), lambda job: job["f1"])) for d, a, v in pairs
    }
    surer = {f"{d} {a} {v}": find.gap((d, "base", a, 1), (d, v, a, 1), _word) for d, a, v in pairs}
    deepest = max(job["layers"] for job in jobs)
    depth = {
        f"{d} {kind}": find.gap((d, "base", "additive", 1), (d, "base", "additive", deepest), _drop(kind))
        for d in datasets
        for kind in KINDS
    }
    start = {f"{d}": find.gap((d, "default query", "dot", 1), (d, "base", "dot", 1), _entropy) for d in datasets}
    stays = {d: average([_entropy(job) for job in find((d, "default query", "dot", 1)).values()]) for d in datasets}
    return {
        "T1": judge(drops, f1_change=loss),
        "T2": judge(_information(find, datasets, "corrected"), plain=judge(_information(find, datasets, "plain"))),
        "T3": judge(surer),
        "T4": judge(depth, layers=deepest),
        "T5": judge(start, default_entropy=stays, uniform_above=UNIFORM),
    }


def _information(find: _Finder, datasets: Sequence[str], kind: str) -> dict[str, list[float]]:
    """Return how much more each keeper of words keeps than the one below it: residual, tying, MLM, base."""
    order = [("residual", "tying"), ("tying", "mlm"), ("mlm", "base")]
    return {
        f"{d} {words} {first} over {second}": find.gap(
            (d, first, "additive", 1),
            (d, second, "additive", 1),
            lambda job, w=words: float(job["information"][w][kind]),  # type: ignore[misc]
        )
        for d in datasets
        for words in ("frequent", "sampled")
        for first, second in order
    }


class _Finder:
    """Finds the jobs of a setting by seed."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = jobs

    def __call__(self, setting: tuple[str, str, str, int]) -> dict[int, Job]:
        keys = ("dataset", "variant", "alignment", "layers")
        return {job["seed"]: job for job in self.jobs if tuple(job[key] for key in keys) == setting}

    def gap(self, first: tuple[str, str, str, int], second: tuple[str, str, str, int], figure: Figure) -> list[float]:
        """Return how much more a figure is in one setting than in the other, seed by seed."""
        one, other = self(first), self(second)
        return [figure(one[seed]) - figure(other[seed]) for seed in sorted(one.keys() & other.keys())]


def _drop(kind: str) -> Figure:
    return lambda job: float(job[kind]["f1"])


def _word(job: Job) -> float:
    return float(job["word_probability"]["macro"])


def _entropy(job: Job) -> float:
    return float(job["attention_entropy"]["mean"])
