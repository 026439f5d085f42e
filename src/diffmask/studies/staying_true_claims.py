"""Which of Tutek and Šnajder's (2020) claims hold; differences are between classifiers of the same seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .claims import judge, judge_all

Job = Mapping[str, Any]
Figure = Callable[[Job], float]
Setting = tuple[str, str, str, int]  # data set, variant, alignment, layers
KINDS = ("uniform", "permuted")
ALIGNMENTS = ("additive", "dot")
FAITHFUL = ("tying", "mlm")
UNIFORM = 0.99  # an entropy of attention above it counts as uniform
EQUAL = 0.03  # F1 that may be lost and still count as about the same


def claims(jobs: Sequence[Job], datasets: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Judge T1 to T5 of the research file."""
    find = _Finder(jobs)
    surer = {
        f"{d} {a} {v}": find.gap((d, "base", a, 1), (d, v, a, 1), _word)
        for d in datasets
        for a in ALIGNMENTS
        for v in FAITHFUL
    }
    return {
        "T1": _drop_claim(find, datasets),
        "T2": _information_claim(find, datasets),
        "T3": judge(surer),
        "T4": _depth_claim(find, datasets, sorted({job["layers"] for job in jobs})),
        "T5": _query_claim(find, datasets),
    }


def _drop_claim(find: _Finder, datasets: Sequence[str]) -> dict[str, Any]:
    """Judge Table 1, each alignment by itself; F1 can fall to 0 by answering no to all, so accuracy stands beside."""

    def drops(alignment: str, figure: str) -> dict[str, list[float]]:
        return {
            f"{d} {alignment} {v} {kind}": find.gap(
                (d, v, alignment, 1), (d, "base", alignment, 1), _drop(kind, figure)
            )
            for d in datasets
            for v in FAITHFUL
            for kind in KINDS
        }

    lost = {
        f"{d} {a} {v}": [change + EQUAL for change in find.gap((d, v, a, 1), (d, "base", a, 1), lambda job: job["f1"])]
        for d in datasets
        for a in ALIGNMENTS
        for v in FAITHFUL
    }
    parts = {f"F1 drops more, {alignment} attention": judge(drops(alignment, "f1")) for alignment in ALIGNMENTS}
    beside = {f"accuracy drops more, {a} attention": judge(drops(a, "accuracy")) for a in ALIGNMENTS}
    return judge_all({**parts, f"F1 itself is at most {EQUAL} lower": judge(lost)}, beside=beside)


def _information_claim(find: _Finder, datasets: Sequence[str]) -> dict[str, Any]:
    """Judge the order of Table 2 link by link, less what chance gives; beside it as they measured it, with chance."""

    def links(kind: str) -> dict[str, Any]:
        return {
            "residual keeps as much as tying": judge(link("residual", "tying", kind), or_equal=True),
            "tying more than MLM": judge(link("tying", "mlm", kind)),
            "MLM more than base": judge(link("mlm", "base", kind)),
        }

    def link(first: str, second: str, kind: str) -> dict[str, list[float]]:
        return {
            f"{d} {words}": find.gap((d, first, "additive", 1), (d, second, "additive", 1), _information(words, kind))
            for d in datasets
            for words in ("frequent", "sampled")
        }

    beside = {f"{name}, chance included": judged for name, judged in links("plain").items()}
    return judge_all(links("corrected"), beside=beside)


def _depth_claim(find: _Finder, datasets: Sequence[str], layers: Sequence[int]) -> dict[str, Any]:
    """Judge Table 6 by the deepest encoders; those between stand beside it."""

    def less(deep: int) -> dict[str, list[float]]:
        return {
            f"{d} {kind}": find.gap((d, "base", "additive", 1), (d, "base", "additive", deep), _drop(kind))
            for d in datasets
            for kind in KINDS
        }

    between = {f"{deep} layers instead of {layers[-1]}": judge(less(deep)) for deep in layers[1:-1]}
    return judge(less(layers[-1]), layers=layers[-1], beside=between)


def _query_claim(find: _Finder, datasets: Sequence[str]) -> dict[str, Any]:
    """Judge both halves: the default start leaves attention uniform, and N(0, 1) does not."""
    default, normal = ({d: list(find((d, v, "dot", 1)).values()) for d in datasets} for v in ("default query", "base"))
    lower = {d: find.gap((d, "default query", "dot", 1), (d, "base", "dot", 1), _entropy) for d in datasets}
    hangs = {f"{d} {kind}": [_drop(kind)(job) for job in normal[d]] for d in datasets for kind in KINDS}
    return judge_all(
        {
            f"drawn by default, entropy of attention is above {UNIFORM}": judge(
                {d: [_entropy(job) - UNIFORM for job in found] for d, found in default.items()}
            ),
            f"drawn from N(0, 1), it is below {UNIFORM}": judge(
                {d: [UNIFORM - _entropy(job) for job in found] for d, found in normal.items()}
            ),
        },
        beside={
            "drawn from N(0, 1), entropy is lower": judge(lower),
            "drawn from N(0, 1), F1 drops under uniform and permuted attention": judge(hangs),
        },
    )


class _Finder:
    """Finds the jobs of a setting by seed."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = jobs

    def __call__(self, setting: Setting) -> dict[int, Job]:
        keys = ("dataset", "variant", "alignment", "layers")
        return {job["seed"]: job for job in self.jobs if tuple(job[key] for key in keys) == setting}

    def gap(self, first: Setting, second: Setting, figure: Figure) -> list[float]:
        """Return how much more a figure is in one setting than in the other, seed by seed."""
        one, other = self(first), self(second)
        return [figure(one[seed]) - figure(other[seed]) for seed in sorted(one.keys() & other.keys())]


def _drop(kind: str, figure: str = "f1") -> Figure:
    return lambda job: _number(job[kind][figure])


def _information(words: str, kind: str) -> Figure:
    return lambda job: _number(job["information"][words][kind])


def _word(job: Job) -> float:
    return _number(job["word_probability"]["macro"])


def _entropy(job: Job) -> float:
    return _number(job["attention_entropy"]["mean"])


def _number(value: float | None) -> float:
    """Return a figure; NaN where it is not defined, which a result file writes as null."""
    return float("nan") if value is None else float(value)
