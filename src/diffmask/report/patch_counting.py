"""The patch-counting study's table: how often each recipe finds what is counted, and how the rivals rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

NAMES = {
    "diffmask": "**DiffMask, ours**",
    "published": "DiffMask, published recipe, λ ascends",
    "published, released sign": "DiffMask, published recipe, λ as released",
}
MEASURES = {
    "auroc": "AUROC",
    "auroc_free": "AUROC, either side",
    "exact": "exact",
    "feasible": "feasible",
    "gap": "patches too many",
    "invariance": "invariant",
    "sensitivity": "sensitive",
}


def table(result: Mapping[str, Any]) -> str:
    """Return one line per recipe and start, then one per rival: means over seeds, and the worst where it counts."""
    lines = [f"| {len(result['seeds'])} seeds | converged | {' | '.join(MEASURES.values())} |", "|---" * 9 + "|"]
    for method, start in keys(result["rows"]):
        rows = [row for row in result["rows"] if (row["method"], row["start"]) == (method, start)]
        lines.append(
            f"| {_name(method, start)} | {_converged(rows)} | {' | '.join(_cell(rows, m) for m in MEASURES)} |"
        )
    return "\n".join(lines)


def keys(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, float | None]]:
    """List recipes and starts in the order of NAMES, then the rivals, the best first."""
    found = list(dict.fromkeys((row["method"], row["start"]) for row in rows))
    recipes = [key for name in NAMES for key in found if key[0] == name]
    areas = {key: mean(row["auroc"] for row in rows if row["method"] == key[0]) for key in found}
    return recipes + sorted((key for key in found if key[0] not in NAMES), key=lambda key: -areas[key])


def _name(method: str, start: float | None) -> str:
    if method not in NAMES:
        return method
    return f"{NAMES[method]}, from {start:.0%} kept" if start else f"{NAMES[method]}, from the paper's β"


def _converged(rows: Sequence[Mapping[str, Any]]) -> str:
    if "converged" not in rows[0]:
        return "–"
    return f"{sum(row['converged'] for row in rows)} of {len(rows)}"


def _cell(rows: Sequence[Mapping[str, Any]], measure: str) -> str:
    values = [row[measure] for row in rows if row.get(measure) is not None]
    if not values:
        return "–"
    shown = f"{mean(values):.3f}"
    return f"{shown} (worst {min(values):.3f})" if measure in ("auroc", "exact") and len(values) > 1 else shown
