"""The table of the erasure study (De Cao et al. 2020, Table 2)."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean, stdev
from typing import Any

COLUMNS = ("precision", "recall", "f1", "optimality", "l0")


def table(result: Mapping[str, Any]) -> str:
    """Return one line per margin and method, mean and spread over the seeds, after what the paper gives."""
    lines = ["| margin | method | precision | recall | F1 | optimal | kept |", "|---|---|---|---|---|---|---|"]
    for name, figures in result["published"].items():
        lines.append(_line("–", f"{name}, published", [figures]))
    for margin in result["margins"]:
        rows = [row for row in result["rows"] if row["margin"] == margin and "f1" in row]
        for method in dict.fromkeys(row["method"] for row in rows):
            lines.append(_line(f"{margin}", method, [row for row in rows if row["method"] == method]))
    return "\n".join(lines)


def _line(margin: str, method: str, rows: list[Mapping[str, Any]]) -> str:
    figures = " | ".join(_figure([row[column] for row in rows]) for column in COLUMNS)
    return f"| {margin} | {method} | {figures} |"


def _figure(values: list[float]) -> str:
    spread = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
    return f"{mean(values):.1f}{spread} %"
