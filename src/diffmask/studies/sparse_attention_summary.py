"""Reduce the jobs of the sparse-attention study to the cells of the tables, and to which claims hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch

from ..attention.importance import CUTS
from ..objective.ranking import kendall
from .attentive import faithfulness
from .claims import average, judge, spread
from .sparse_attention_published import ENCODERS, KINDS, TABLE1, TABLE2, TABLE3, TABLE5, TABLE6

Job = Mapping[str, Any]
MAIN = ("softmax", "sparsemax")
HIGH = 0.5  # an entropy above it counts as high
TAU = ("every", "support", "null", "untied")


def table_cells(jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """Return every cell of Tables 1, 2, 3, 5 and 6 and of Figures 2 and 3: ours over the seeds, theirs beside it."""
    rows: list[dict[str, Any]] = []
    datasets = list(dict.fromkeys(job["dataset"] for job in jobs))
    for dataset in datasets:
        for encoder in ENCODERS:
            of = [job for job in jobs if (job["dataset"], job["encoder"]) == (dataset, encoder)]
            about = {"dataset": dataset, "encoder": encoder}
            for projection in dict.fromkeys(job["projection"] for job in of):
                same = [job for job in of if job["projection"] == projection]
                rows += _setting_rows({**about, "projection": projection}, same)
            taus = list(entropy_taus(of).values())
            rows.append(
                _cell(
                    {**about, "projection": "sparsegen"}, "2", "τ(λ, H̃(g_ŷ(x)))", taus, TABLE2.get((dataset, encoder))
                )
            )
    return rows


def _setting_rows(about: dict[str, Any], jobs: Sequence[Job]) -> list[dict[str, Any]]:
    dataset, encoder, projection = key = about["dataset"], about["encoder"], about["projection"]
    rows = [_cell(about, "figure 3", "support", [job["support"] for job in jobs], None)]
    for kind in KINDS:
        table = "6" if projection in MAIN else "figure 3"
        for name in TAU:
            found = [job["agreement"][kind][name] for job in jobs]
            theirs = TABLE6[kind].get(key) if name == "every" else None
            row = _cell(about, table, f"τ {kind} {name}", [one["mean"] for one in found], theirs)
            rows.append(
                row | {"sd": average([one["sd"] for one in found]), "undefined": sum(one["undefined"] for one in found)}
            )
    for kind in KINDS[:2]:
        rows.append(_cell(about, "figure 2", f"H̃ {kind}", [job["entropy"][kind]["mean"] for job in jobs], None))
    if projection not in MAIN:
        return rows
    theirs = TABLE3.get((dataset, encoder)) if projection == "softmax" else None
    rows.append(_cell(about, "3", "accuracy", [job["accuracy"] for job in jobs], theirs))
    rows.append(_cell(about, "1", "H̃(g_h(x))", [job["state_entropy"]["mean"] for job in jobs], TABLE1.get(key)))
    for name in ("frozen", "unfrozen"):
        published = TABLE5.get((dataset, encoder, name), (None, None, None))
        for figure, theirs in zip(("divergence", "accuracy", "change"), published, strict=True):
            values = [job["adversaries"][name][figure] for job in jobs]
            rows.append(_cell(about, "5", f"{name} {figure}", values, theirs))
    return rows


def _cell(
    about: Mapping[str, Any], table: str, figure: str, values: Sequence[float | None], published: float | None
) -> dict[str, Any]:
    found = {"mean": average(values), "spread": spread(values), "values": list(values), "published": published}
    return {"table": table, **about, "figure": figure, **found}


def entropy_taus(jobs: Sequence[Job]) -> dict[int, float]:
    """Return Kendall's τ-b between λ and the mean entropy of the input gradients, by seed."""
    return _taus(jobs, lambda job: job["entropy"]["gradient-inputs"]["mean"])


def _taus(jobs: Sequence[Job], figure: Callable[[Job], float]) -> dict[int, float]:
    found = {}
    for seed in sorted({job["seed"] for job in jobs}):
        curve = [(job["sparsity"], figure(job)) for job in jobs if job["seed"] == seed and job["sparsity"] is not None]
        first, second = torch.tensor(curve, dtype=torch.double).T
        found[seed] = float(kendall(first, second))
    return found


def summarise(
    jobs: Sequence[Job], rows: Sequence[Mapping[str, Any]], seeds: Sequence[int], datasets: Sequence[str]
) -> dict[str, Any]:
    """Say which claims hold, and whether DiffMask is more faithful than attention."""
    judged = claims(jobs)
    worst = [row for row in rows if row["table"] == "3" and row["published"] is not None]
    gaps = {f"{row['dataset']} {row['encoder']}": row["mean"] - row["published"] for row in worst}
    return {
        "claims": {name: found["verdict"] for name, found in judged.items()},
        "claim_figures": judged,
        "seeds": list(seeds),
        "datasets": {name: next(job["data"] for job in jobs if job["dataset"] == name) for name in datasets},
        "faithfulness": faithfulness([job["faithfulness"] for job in jobs if "faithfulness" in job]),
        "accuracy_gaps": gaps,
    }


def claims(jobs: Sequence[Job]) -> dict[str, dict[str, Any]]:
    """Judge M1 to M5 of the research file."""
    main = [job for job in jobs if job["projection"] in MAIN]
    by_cell = _grouped(main, ("dataset", "encoder", "projection"))
    pairs = {"gradient": (KINDS[2], KINDS[0]), "left-out": (KINDS[3], KINDS[1])}

    def first_claim(name: str) -> dict[str, list[float]]:
        return {
            f"{cell} {way}": [_gap(job["agreement"][a][name], job["agreement"][b][name]) for job in found]
            for cell, found in by_cell.items()
            for way, (a, b) in pairs.items()
        }

    curves = _grouped(jobs, ("dataset", "encoder"))
    falling = {cell: [-tau for tau in _agreement_taus(found).values()] for cell, found in curves.items()}
    reviews = {cell: values for cell, values in falling.items() if cell.startswith("imdb")} or falling
    attacks = {cell: [j["adversaries"] for j in found] for cell, found in by_cell.items()}
    return {
        "M1": judge(first_claim("every"), on_support=judge(first_claim("support"))),
        "M2": judge(
            {cell: [j["state_entropy"]["mean"] - HIGH for j in found] for cell, found in by_cell.items()}, above=HIGH
        ),
        "M3": judge({cell: [-tau for tau in entropy_taus(found).values()] for cell, found in curves.items()}),
        "M4": judge(
            reviews, everywhere=falling, above_ties={cell: above_ties(found) for cell, found in curves.items()}
        ),
        "M5": judge(
            {cell: [a["unfrozen"]["change"] - a["frozen"]["change"] for a in found] for cell, found in attacks.items()},
            divergence_gap={
                cell: average([a["unfrozen"]["divergence"] - a["frozen"]["divergence"] for a in found])
                for cell, found in attacks.items()
            },
        ),
    }


def above_ties(jobs: Sequence[Job]) -> dict[str, float | None]:
    """Return, by λ, how much τ with the input gradients exceeds that of softmax attention cut to the same support."""
    found: dict[str, list[float | None]] = {}
    for job in jobs:
        dense = [j for j in jobs if j["sparsity"] is None and j["seed"] == job["seed"]]
        if job["sparsity"] is not None and dense:
            null = tie_null(dense[0], job["support_share"])
            own = job["agreement"][KINDS[0]]["every"]["mean"]
            found.setdefault(f"{job['sparsity']:g}", []).append(own - null)
    return {name: average(values) for name, values in found.items()}


def tie_null(softmax: Job, share: float) -> float:
    """Read off what τ would be if softmax attention kept only this share of the words, between the shares measured."""
    curve = sorted(zip(CUTS, (one["mean"] for one in softmax["truncated"][KINDS[0]]), strict=True))
    if share <= curve[0][0]:
        return float(curve[0][1])
    for (low, first), (high, second) in pairwise(curve):
        if share <= high:
            return float(first + (second - first) * (share - low) / (high - low))
    return float(curve[-1][1])


def _agreement_taus(jobs: Sequence[Job]) -> dict[int, float]:
    return _taus(jobs, lambda job: job["agreement"][KINDS[0]]["every"]["mean"])


def _gap(first: Mapping[str, float], second: Mapping[str, float]) -> float:
    return first["mean"] - second["mean"]


def _grouped(jobs: Sequence[Job], keys: Sequence[str]) -> dict[str, list[Job]]:
    found: dict[str, list[Job]] = {}
    for job in jobs:
        found.setdefault(" ".join(job[key] for key in keys), []).append(job)
    return found
