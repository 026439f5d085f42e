"""The ground-truth study's tables: how right each method is on each task, and who is first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Column = Mapping[str, Mapping[str, float]]
DIFFMASK = "probe"


def table(result: Mapping[str, Any]) -> str:
    """Return average precision by method and task, and below it who is first at each task."""
    summary = result["summary"]
    seeds = len(result["seeds"])
    parts = [
        f"Average precision against the units that matter, mean over {seeds} seeds ± their standard deviation:",
        scores_table(summary["table"]),
        "Who is first, by average precision and by whether the units ranked first are a minimal sufficient set:",
        first_table(summary["first_by_task"], summary["first_by_task_sets"], summary["table"]),
    ]
    return "\n\n".join([*parts, *notes(result)])


def scores_table(columns: Mapping[str, Column]) -> str:
    """Return one line per method and one column per task; the best of a column is bold."""
    methods = list(dict.fromkeys(method for column in columns.values() for method in column))
    lines = [f"| method | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for method in methods:
        cells = [_cell(column, method) for column in columns.values()]
        lines.append(f"| {_name(method)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def first_table(first: Mapping[str, Any], sets: Mapping[str, Any], columns: Mapping[str, Column]) -> str:
    """Return one line per task: the first and those tied with it, in both scores, and where DiffMask comes."""
    lines = ["| task | first | DiffMask | place | first by sets | place by sets |", "|---" * 6 + "|"]
    for task, found in first.items():
        by_sets = sets.get(task)
        ours = columns[task].get(DIFFMASK)
        cells = [
            _first(found),
            "–" if ours is None else f"{ours['mean']:.3f}",
            _place(found),
            "–" if by_sets is None else _first(by_sets),
            "–" if by_sets is None else _place(by_sets),
        ]
        lines.append(f"| {task} | {' | '.join(cells)} |")
    return "\n".join(lines)


def notes(result: Mapping[str, Any]) -> list[str]:
    """Say which tasks DiffMask is not first at, what it knows at each depth, and which models were refused."""
    summary = result["summary"]
    behind = summary["probe_not_first"]
    where = f"not among the first at: {', '.join(behind)}" if behind else "among the first at every task"
    said = [f"DiffMask is {where}."]
    known = summary["knowable_units_right"]
    if known:
        shares = ", ".join(f"{task} {share:.1%}" for task, share in known.items())
        said.append(f"Units on which DiffMask is right about what can be known there: {shares}.")
    if summary["refused_models"]:
        said.append(f"Models refused because they do not use their shortcut: {summary['refused_models']}.")
    return said


def _cell(column: Column, method: str) -> str:
    if method not in column:
        return "–"
    shown = f"{column[method]['mean']:.3f}"
    if column[method]["spread"] >= 0.0005:
        shown += f" ± {column[method]['spread']:.3f}"
    best = max(found["mean"] for found in column.values())
    return f"**{shown}**" if column[method]["mean"] >= best - 5e-4 else shown


def _name(method: str) -> str:
    return "**DiffMask**" if method == DIFFMASK else method


def _first(found: Mapping[str, Any]) -> str:
    names: Sequence[str] = [found["first"], *found["tied"]]
    shown = ", ".join(_name(name) for name in names[:4])
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return f"{shown}{more} ({found['score']:.3f})"


def _place(found: Mapping[str, Any]) -> str:
    if found["probe_place"] is None:
        return "–"
    return f"{found['probe_place']}{' (tied)' if DIFFMASK in found['tied'] else ''}"
