"""What the reports of both attention studies share: claims, cells beside the published ones, and faithfulness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def claims_table(summary: Mapping[str, Any], texts: Mapping[str, str]) -> str:
    """Return every claim with its verdict and the numbers that say so, its parts and what stands beside it below it."""
    lines = ["| claim | verdict | cells for | against | of | mean difference, lowest to highest |", "|---" * 6 + "|"]
    for name, verdict in summary["claims"].items():
        found = summary["claim_figures"][name]
        lines.append(_claim(f"{name}: {texts[name]}", f"**{verdict}**", found))
        lines += [_claim(f"{name}: – {part}", one["verdict"], one) for part, one in found.get("parts", {}).items()]
        beside = {part: one for part, one in found.get("beside", {}).items() if one["cells"]}
        lines += [_claim(f"{name}: *beside it:* {part}", one["verdict"], one) for part, one in beside.items()]
    return "\n".join(lines)


def _claim(text: str, verdict: str, found: Mapping[str, Any]) -> str:
    """Return a line; a claim with parts has no cells of its own."""
    counts = [str(found.get(key, "")) for key in ("for", "against", "cells")]
    known = [value for value in found.get("differences", {}).values() if value is not None]
    numbers = f"{sum(known) / len(known):.3f}, {min(known):.3f} to {max(known):.3f}" if known else ""
    return f"| {' | '.join([text, verdict, *counts, numbers])} |"


def cells_table(rows: Sequence[Row], table: str, keys: Sequence[str]) -> str:
    """Return the cells of one of the paper's tables: a line per setting, a column per data set, theirs in brackets."""
    chosen = [row for row in rows if row["table"] == table]
    datasets = list(dict.fromkeys(row["dataset"] for row in chosen))
    lines = [f"| {' | '.join([*keys, 'figure', *datasets])} |", "|---" * (len(keys) + 1 + len(datasets)) + "|"]
    for name in dict.fromkeys((*(row[key] for key in keys), row["figure"]) for row in chosen):
        same = {row["dataset"]: row for row in chosen if (*(row[key] for key in keys), row["figure"]) == name}
        cells = [cell(same[dataset]) if dataset in same else "–" for dataset in datasets]
        lines.append(f"| {' | '.join([*map(str, name), *cells])} |")
    return "\n".join(lines)


def cell(row: Row) -> str:
    """Write a figure with its spread over seeds, the published one in brackets, and on how much it is not defined."""
    if row["mean"] is None:
        return "–"
    shown = f"{row['mean']:.3f}"
    if row["spread"] is not None:
        shown += f" ± {row['spread']:.3f}"
    if row["published"] is not None:
        shown += f" ({row['published']:.3f})"
    return f"{shown}, undefined on {row['undefined']} of {row['documents']}" if row.get("undefined") else shown


def faithfulness_table(found: Mapping[str, Any]) -> str:
    """Return DiffMask beside attention and a random order, by each metric."""
    lines = [
        "| metric | better | DiffMask | attention | random | DiffMask better than attention on |",
        "|---" * 6 + "|",
    ]
    for metric, figures in found.items():
        if isinstance(figures, Mapping):
            means = " | ".join(_number(figures.get(method)) for method in ("diffmask", "attention", "random"))
            count = f"{figures['diffmask_better']} of {figures['defined']} classifiers"
            lines.append(f"| {metric} | {figures['better']} | {means} | {count} |")
    return "\n".join(lines)


def seeds_of(rows: Sequence[Row], table: str) -> str:
    """Say over how many seeds the cells of a table are."""
    counts = sorted({len(row["values"]) for row in rows if row["table"] == table})
    if not counts:
        return "not measured"
    return f"{counts[-1]} seeds" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"


def data_table(datasets: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the sizes of the data sets and how they came about."""
    lines = ["| data | train | dev | test | words | |", "|---|---|---|---|---|---|"]
    for name, size in datasets.items():
        figures = " | ".join(str(size[key]) for key in ("train", "dev", "test", "words", "note"))
        lines.append(f"| {name} | {figures} |")
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
