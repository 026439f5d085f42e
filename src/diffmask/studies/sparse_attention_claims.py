"""Which of Meister et al.'s (2021) claims hold, each beside what ties and shared zeros alone would say."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import torch

from ..attention.importance import CUTS
from ..objective.ranking import kendall
from .claims import average, judge, judge_all
from .sparse_attention_published import KINDS, TABLE2

Job = Mapping[str, Any]
MAIN = ("softmax", "sparsemax")
HIGH = 0.5  # an entropy above it counts as high
NEAR = 0.1  # as near as a figure of theirs can be expected to be met with other vectors, splits and epochs
LOST = 0.02  # the most accuracy an unfrozen adversary of theirs lost
WAYS = {"gradient": (KINDS[2], KINDS[0]), "left-out": (KINDS[3], KINDS[1])}


def claims(jobs: Sequence[Job]) -> dict[str, dict[str, Any]]:
    """Judge M1 to M5 of the research file."""
    by_cell = _grouped([job for job in jobs if job["projection"] in MAIN], ("dataset", "encoder", "projection"))
    curves = _grouped(jobs, ("dataset", "encoder"))
    entropy = {cell: [j["state_entropy"]["mean"] - HIGH for j in found] for cell, found in by_cell.items()}
    return {
        "M1": judge(_states_over_inputs(by_cell, "every"), beside=_without_zeros(by_cell)),
        "M2": judge(entropy, above=HIGH),
        "M3": _entropy_claim(curves),
        "M4": _falling_claim(curves),
        "M5": _adversary_claim({cell: [j["adversaries"] for j in found] for cell, found in by_cell.items()}),
    }


def _states_over_inputs(by_cell: Mapping[str, Sequence[Job]], name: str) -> dict[str, list[float]]:
    """Return how much more attention agrees with hidden states than with inputs, by gradient and by leaving out."""
    return {
        f"{cell} {way}": [_mean(job, states, name) - _mean(job, inputs, name) for job in found]
        for cell, found in by_cell.items()
        for way, (states, inputs) in WAYS.items()
    }


def _without_zeros(by_cell: Mapping[str, Sequence[Job]]) -> dict[str, Any]:
    sparse = {cell: found for cell, found in by_cell.items() if cell.endswith("sparsemax")}
    above = {
        f"{cell} {way}": [_mean(job, states, "every") - _mean(job, states, "null") for job in found]
        for cell, found in sparse.items()
        for way, (states, _) in WAYS.items()
    }
    return {
        "sparsemax, on the words with weight alone": judge(_states_over_inputs(sparse, "support")),
        "sparsemax, agreement with hidden states above that of shared zeros": judge(above),
    }


def _entropy_claim(curves: Mapping[str, Sequence[Job]]) -> dict[str, Any]:
    """Judge Table 2: the sign in every setting, and the size where one is published."""
    taus = {cell: list(entropy_taus(found).values()) for cell, found in curves.items()}
    known = {" ".join(setting): value for setting, value in TABLE2.items()}
    near = {cell: [NEAR - abs(tau - known[cell]) for tau in found] for cell, found in taus.items() if cell in known}
    return judge_all(
        {
            "τ is negative": judge({cell: [-tau for tau in found] for cell, found in taus.items()}),
            f"and within {NEAR} of the published one": judge(near),
        }
    )


def _falling_claim(curves: Mapping[str, Sequence[Job]]) -> dict[str, Any]:
    """Judge Figure 3: on IMDb, or where there is none on what there is, with and without what ties do."""
    falls, beyond = dict[str, list[float]](), dict[str, list[float]]()
    for cell, found in curves.items():
        for way, (_, kind) in WAYS.items():
            falls[f"{cell} {way}"] = [-tau for tau in _taus(found, partial(_mean, kind=kind, name="every")).values()]
            beyond[f"{cell} {way}"] = [-tau for tau in _taus(found, _beyond_ties(found, kind)).values()]
    reviews = {cell for cell in falls if cell.startswith("imdb")} or set(falls)
    others = {cell: values for cell, values in falls.items() if cell not in reviews}
    return judge(
        {cell: values for cell, values in falls.items() if cell in reviews},
        beside={
            "less what softmax attention cut to as many words would give": judge(
                {cell: values for cell, values in beyond.items() if cell in reviews}
            ),
            "on the other data sets": judge(others),
        },
        above_ties={cell: above_ties(found) for cell, found in curves.items()},
    )


def _adversary_claim(attacks: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Judge Table 5; how much more an unfrozen adversary diverges stands beside it."""

    def cells(figure: Callable[[Mapping[str, Any]], float]) -> dict[str, list[float]]:
        return {cell: [figure(one) for one in found] for cell, found in attacks.items()}

    return judge_all(
        {
            "a frozen one loses accuracy": judge(cells(lambda a: -a["frozen"]["change"])),
            f"an unfrozen one loses less than {LOST}": judge(cells(lambda a: LOST + a["unfrozen"]["change"])),
        },
        beside={
            "an unfrozen one loses less": judge(cells(lambda a: a["unfrozen"]["change"] - a["frozen"]["change"])),
            "an unfrozen one diverges more": judge(
                cells(lambda a: a["unfrozen"]["divergence"] - a["frozen"]["divergence"])
            ),
        },
    )


def entropy_taus(jobs: Sequence[Job]) -> dict[int, float]:
    """Return Kendall's τ-b between λ and the mean entropy of the input gradients, by seed."""
    return _taus(jobs, lambda job: _number(job["entropy"][KINDS[0]]["mean"]))


def _taus(jobs: Sequence[Job], figure: Callable[[Job], float]) -> dict[int, float]:
    found = {}
    for seed in sorted({job["seed"] for job in jobs}):
        curve = [(job["sparsity"], figure(job)) for job in jobs if job["seed"] == seed and job["sparsity"] is not None]
        known = torch.tensor([point for point in curve if not math.isnan(point[1])], dtype=torch.double).view(-1, 2)
        found[seed] = float(kendall(*known.T))
    return found


def above_ties(jobs: Sequence[Job]) -> dict[str, float | None]:
    """Return, by λ, how much τ with the input gradients exceeds that of softmax attention cut to the same support."""
    exceeds, found = _beyond_ties(jobs, KINDS[0]), dict[str, list[float | None]]()
    for job in jobs:
        if job["sparsity"] is not None:
            found.setdefault(f"{job['sparsity']:g}", []).append(exceeds(job))
    return {name: average(values) for name, values in found.items()}


def _beyond_ties(jobs: Sequence[Job], kind: str) -> Callable[[Job], float]:
    return lambda job: _mean(job, kind, "every") - cut_tau(jobs, job, kind)


def cut_tau(jobs: Sequence[Job], job: Job, kind: str) -> float:
    """Return what τ would be if the softmax attention of the same seed kept as many words; NaN without one."""
    dense = [one for one in jobs if one["sparsity"] is None and one["seed"] == job["seed"]]
    return tie_null(dense[0], job["support_share"], kind) if dense else math.nan


def tie_null(softmax: Job, share: float, kind: str = KINDS[0]) -> float:
    """Read off what τ would be if softmax attention kept only this share of the words, between the shares measured.

    NaN below the smallest of them: few words more are far from as few, and would make ties look harmless.
    """
    curve = sorted(zip(CUTS, (one["mean"] for one in softmax["truncated"][kind]), strict=True))
    if share <= curve[0][0]:
        return float(curve[0][1]) if share > 0.9 * curve[0][0] else math.nan
    for (low, first), (high, second) in pairwise(curve):
        if share <= high:
            return float(first + (second - first) * (share - low) / (high - low))
    return float(curve[-1][1])


def _mean(job: Job, kind: str, name: str) -> float:
    return _number(job["agreement"][kind][name]["mean"])


def _number(value: float | None) -> float:
    """Return an average over documents; NaN where it was defined on none, which a result file writes as null."""
    return math.nan if value is None else float(value)


def _grouped(jobs: Sequence[Job], keys: Sequence[str]) -> dict[str, list[Job]]:
    found: dict[str, list[Job]] = {}
    for job in jobs:
        found.setdefault(" ".join(job[key] for key in keys), []).append(job)
    return found
