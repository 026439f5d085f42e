"""Tables of what needs no pictures: the embedded model, the needles, and what measuring attention costs."""

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


def attention_cost(result: Mapping[str, Any]) -> str:
    """Return how many seconds each measure takes, a column per classifier."""
    totals, sentences = result["summary"]["seconds"], result["summary"]["sentences"]
    lines = [f"| seconds for {sentences} sentences | {' | '.join(totals)} |", "|---" * (1 + len(totals)) + "|"]
    rows = result["rows"]
    for part in dict.fromkeys(row["part"] for row in rows):
        seconds = [f"{row['seconds']:.1f}" for row in rows if row["part"] == part]
        lines.append(f"| {part} | {' | '.join(seconds)} |")
    return "\n".join([*lines, f"| all | {' | '.join(f'{seconds:.1f}' for seconds in totals.values())} |"])


def none(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return no pictures."""
    return {}
