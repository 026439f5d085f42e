"""Tables of the studies that need no pictures: the embedded model and the needles."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean
from typing import Any

from .plain import short_names


def embedded(result: Mapping[str, Any]) -> str:
    """Return what the embedded model's probes do at each depth, on the dev sentences."""
    lines = [
        "| probe | depth | masked | KL | same prediction | accuracy |",
        "|---|---|---|---|---|---|",
    ]
    names = short_names([row["site"] for row in result["rows"]])
    for row, name in zip(result["rows"], names, strict=True):
        figures = (f"{row['masked']:.1%}", f"{row['divergence']:.3f}", f"{row['agreement']:.1%}")
        right = f"{row['accuracy_original']:.1%} → {row['accuracy']:.1%}"
        lines.append(f"| {row['kind']} | {name} | {' | '.join(figures)} | {right} |")
    return "\n".join(lines)


def needles(result: Mapping[str, Any]) -> str:
    """Return how each method ranks the needle, over all seeds."""
    lines = [
        "| method | depth | mean rank | ranked first | sentences kept | needle kept |",
        "|---|---|---|---|---|---|",
    ]
    keys = sorted({(row["method"] != "probe", row["method"], row["depth"]) for row in result["rows"]})
    for _, method, depth in keys:
        rows = [row for row in result["rows"] if (row["method"], row["depth"]) == (method, depth)]
        cells = [f"{mean(r['rank'] for r in rows):.2f}", f"{mean(r['first'] for r in rows):.1%}", "–", "–"]
        if method == "probe":
            cells[2:] = [f"{mean(r['kept'] for r in rows):.1f}", f"{mean(r['needle_kept'] for r in rows):.1%}"]
        lines.append(f"| {method} | {depth} | {' | '.join(cells)} |")
    return "\n".join(lines)


def none(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return no pictures."""
    return {}
