"""Reduce the jobs of the staying-true study to the cells of the tables, and to which claims hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .attentive import faithfulness
from .claims import average, spread
from .staying_true_claims import Job, claims
from .staying_true_published import KEEPERS, TABLE1, TABLE2, TABLE3, TABLE6


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
        for figure, name in (("accuracy", "accuracy"), ("auc", "AUC")):
            rows.append(_cell(about, table, f"{name} drop, {kind}", [job[kind][figure] for job in jobs], None))
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
