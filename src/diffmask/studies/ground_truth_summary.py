"""Reduce the rows of the ground-truth study to who is first at what."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import mean, pstdev
from typing import Any

Row = Mapping[str, Any]
MAIN, SETS = "ap", "minimal"


def summarise(rows: Sequence[Row], skipped: Sequence[Row]) -> dict[str, Any]:
    """Say for each task which methods are first, and where DiffMask is not; with the table behind it."""
    tables = {key: table(rows, key) for key in (MAIN, SETS)}
    first = {task: first_of(column) for task, column in tables[MAIN].items()}
    return {
        "first_by_task": first,
        "first_by_task_sets": {task: first_of(column) for task, column in tables[SETS].items()},
        "probe_first": [task for task, found in first.items() if "probe" in (found["first"], *found["tied"])],
        "probe_not_first": [task for task, found in first.items() if "probe" not in (found["first"], *found["tied"])],
        "knowable_units_right": _knowable(rows),
        "refused_models": sum(row["method"] == "all" for row in skipped),
        "table": tables[MAIN],
        "table_sets": tables[SETS],
    }


def table(rows: Sequence[Row], key: str) -> dict[str, dict[str, dict[str, float]]]:
    """Return task → method → mean and spread of a score over the seeds."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        if row[key] is not None:
            found.setdefault(row["task"], {}).setdefault(row["method"], []).append(row[key])
    return {
        task: {
            method: {"mean": mean(values), "spread": pstdev(values), "seeds": len(values)}
            for method, values in column.items()
        }
        for task, column in found.items()
    }


def first_of(column: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Name the method with the highest mean, those not told apart from it by the seeds' spread, and the probe's place.

    Two methods are tied when their means differ by no more than their spreads together, as independent errors add up.
    """
    order = sorted(column, key=lambda method: -column[method]["mean"])
    best = column[order[0]]
    tied = [
        method
        for method in order[1:]
        if best["mean"] - column[method]["mean"] <= math.hypot(best["spread"], column[method]["spread"]) + 1e-9
    ]
    return {"first": order[0], "score": best["mean"], "tied": tied, "probe_place": _place(column, "probe")}


def _place(column: Mapping[str, Mapping[str, float]], method: str) -> int | None:
    """Return how many methods have a higher mean, plus one."""
    if method not in column:
        return None
    return 1 + sum(found["mean"] > column[method]["mean"] + 1e-9 for found in column.values())


def _knowable(rows: Sequence[Row]) -> dict[str, float]:
    """Return the share of units on which the probe is right about what can be known, by site."""
    found: dict[str, list[float]] = {}
    for row in rows:
        if row["method"] == "probe" and "knowable_units_right" in row:
            found.setdefault(row["task"], []).append(row["knowable_units_right"])
    return {task: mean(values) for task, values in found.items()}
