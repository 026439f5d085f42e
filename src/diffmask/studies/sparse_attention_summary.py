"""Reduce the jobs of the sparse-attention study to the cells of the tables, and to which claims hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .attentive import faithfulness
from .claims import average, spread
from .sparse_attention_claims import MAIN, Job, claims, cut_tau, entropy_taus
from .sparse_attention_published import (
    ENCODERS,
    KINDS,
    TABLE1,
    TABLE1_SD,
    TABLE2,
    TABLE3,
    TABLE5,
    TABLE6,
    TABLE6_SD,
)

# What could come about by itself differs: importance of hidden states shares the zeros of sparse attention ("null"),
# that of inputs has none, and ties alone push τ down ("cut": softmax attention that keeps as many words).
TAU = {kind: ("every", "support", "null" if "states" in kind else "cut", "untied") for kind in KINDS}
Rows = list[dict[str, Any]]


def table_cells(jobs: Sequence[Job]) -> Rows:
    """Return every cell of Tables 1, 2, 3, 5, 6, of Figures 2, 3 and of attacks: ours by seeds, theirs beside it."""
    rows: Rows = []
    for dataset in dict.fromkeys(job["dataset"] for job in jobs):
        for encoder in ENCODERS:
            of = [job for job in jobs if (job["dataset"], job["encoder"]) == (dataset, encoder)]
            about = {"dataset": dataset, "encoder": encoder}
            for projection in dict.fromkeys(job["projection"] for job in of):
                same = [job for job in of if job["projection"] == projection]
                rows += _setting_rows({**about, "projection": projection}, same, of)
            taus, about = list(entropy_taus(of).values()), {**about, "projection": "sparsegen"}
            rows.append(_cell(about, "2", "τ(λ, H̃(g_ŷ(x)))", taus, TABLE2.get((dataset, encoder))))
    return rows


def _setting_rows(about: dict[str, Any], jobs: Sequence[Job], of: Sequence[Job]) -> Rows:
    """Return the rows of one setting; `of` are the jobs of every projection."""
    rows = [
        _cell(about, "figure 3", "words with weight", [job["support"] for job in jobs]),
        _cell(about, "figure 3", "share of the words", [job["support_share"] for job in jobs]),
        _cell(about, "figure 3", "entropy of attention", [job["attention_entropy"]["mean"] for job in jobs]),
        *_agreement_rows(about, jobs, of),
    ]
    for kind in KINDS[:2]:
        rows.append(_over_documents(about, "figure 2", f"H̃ {kind}", [job["entropy"][kind] for job in jobs]))
    return rows + (_main_rows(about, jobs) if about["projection"] in MAIN else [])


def _agreement_rows(about: dict[str, Any], jobs: Sequence[Job], of: Sequence[Job]) -> Rows:
    """Return Table 6 with its nulls, or the points of Figure 3."""
    key, rows = (about["dataset"], about["encoder"], about["projection"]), list[dict[str, Any]]()
    table = "6" if about["projection"] in MAIN else "figure 3"
    for kind in KINDS:
        for name in TAU[kind]:
            figure = f"τ {kind} {name}"
            if name == "cut":
                rows.append(_cell(about, table, figure, [cut_tau(of, job, kind) for job in jobs]))
                continue
            theirs = (TABLE6[kind].get(key), TABLE6_SD[kind].get(key)) if name == "every" else (None, None)
            rows.append(_over_documents(about, table, figure, [job["agreement"][kind][name] for job in jobs], *theirs))
    return rows


def _main_rows(about: dict[str, Any], jobs: Sequence[Job]) -> Rows:
    """Return what is measured for softmax and sparsemax alone: Tables 1, 3 and 5, and attacks on single documents."""
    dataset, encoder, projection = key = about["dataset"], about["encoder"], about["projection"]
    theirs = TABLE3.get((dataset, encoder)) if projection == "softmax" else None
    found = [job["state_entropy"] for job in jobs]
    rows = [
        _cell(about, "3", "accuracy", [job["accuracy"] for job in jobs], theirs),
        _over_documents(about, "1", "H̃(g_h(x))", found, TABLE1.get(key), TABLE1_SD.get(key)),
    ]
    for name in ("frozen", "unfrozen"):
        published = TABLE5.get((dataset, encoder, name), (None, None, None))
        for figure, theirs in zip(("divergence", "accuracy", "change"), published, strict=True):
            values = [job["adversaries"][name][figure] for job in jobs]
            rows.append(_cell(about, "5", f"{name} {figure}", values, theirs))
    attacks = {
        "accuracy, uniform": [job["uniform_accuracy"] for job in jobs],
        "accuracy, permuted": [job["permuted_accuracy"] for job in jobs],
        "median change, permuted": [job["permutation_change"] for job in jobs],
        "divergence, exact adversary": [job["exact_adversary"]["mean"] for job in jobs],
        "divergence, searched adversary": [job["searched_adversary"]["mean"] for job in jobs],
    }
    return rows + [_cell(about, "attacks", figure, values) for figure, values in attacks.items()]


def _cell(
    about: Mapping[str, Any], table: str, figure: str, values: Sequence[float | None], published: float | None = None
) -> dict[str, Any]:
    found = {"mean": average(values), "spread": spread(values), "values": list(values), "published": published}
    return {"table": table, **about, "figure": figure, **found}


def _over_documents(
    about: Mapping[str, Any],
    table: str,
    figure: str,
    found: Sequence[Mapping[str, Any]],
    published: float | None = None,
    published_sd: float | None = None,
) -> dict[str, Any]:
    """Return a cell that averages documents: their spread beside it, and on how many it was not defined."""
    row = _cell(about, table, figure, [one["mean"] for one in found], published)
    undefined, documents = sum(one["undefined"] for one in found), sum(one["count"] for one in found)
    more = {"sd": average([one["sd"] for one in found]), "published_sd": published_sd}
    return row | more | {"undefined": undefined, "documents": undefined + documents}


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
