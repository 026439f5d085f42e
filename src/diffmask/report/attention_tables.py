"""What the reports of both attention studies share: claims, cells beside the published ones, and faithfulness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def claims_table(summary: Mapping[str, Any], texts: Mapping[str, str]) -> str:
    """Return one line per claim: what is claimed, whether it holds here, and how many cells say so."""
    lines = ["| claim | verdict | cells for | against | of |", "|---|---|---|---|---|"]
    for name, verdict in summary["claims"].items():
        found = summary["claim_figures"][name]
        lines.append(
            f"| {name}: {texts[name]} | **{verdict}** | {found['for']} | {found['against']} | {found['cells']} |"
        )
    return "\n".join(lines)


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
    """Write a figure with its spread over seeds, and the published one in brackets."""
    if row["mean"] is None:
        return "–"
    shown = f"{row['mean']:.3f}"
    if row["spread"] is not None:
        shown += f" ± {row['spread']:.3f}"
    return shown if row["published"] is None else f"{shown} ({row['published']:.3f})"


def faithfulness_table(found: Mapping[str, Any]) -> str:
    """Return DiffMask beside attention, by each metric."""
    lines = ["| metric | better | DiffMask | attention | DiffMask better on |", "|---|---|---|---|---|"]
    for metric, figures in found.items():
        if isinstance(figures, Mapping):
            means = " | ".join(_number(figures[method]) for method in ("diffmask", "attention"))
            count = f"{figures['diffmask_better']} of {figures['defined']} classifiers"
            lines.append(f"| {metric} | {figures['better']} | {means} | {count} |")
    return "\n".join(lines)


def data_table(datasets: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the sizes of the data sets and how they came about."""
    lines = ["| data | train | dev | test | words | |", "|---|---|---|---|---|---|"]
    for name, size in datasets.items():
        figures = " | ".join(str(size[key]) for key in ("train", "dev", "test", "words", "note"))
        lines.append(f"| {name} | {figures} |")
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
