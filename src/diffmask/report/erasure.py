"""The table of the erasure study (De Cao et al. 2020, Table 2)."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean
from typing import Any

COLUMNS = ("precision", "recall", "f1", "optimality", "l0")


def table(result: Mapping[str, Any]) -> str:
    """Return one line per margin and method, over all seeds, after what the paper gives."""
    lines = ["| margin | method | precision | recall | F1 | optimal | kept |", "|---|---|---|---|---|---|---|"]
    for name, figures in result["published"].items():
        lines.append(_line("–", f"{name}, published", [figures]))
    for margin in result["margins"]:
        rows = [row for row in result["rows"] if row["margin"] == margin and "f1" in row]
        for method in dict.fromkeys(row["method"] for row in rows):
            lines.append(_line(f"{margin}", method, [row for row in rows if row["method"] == method]))
    return "\n".join(lines)


def _line(margin: str, method: str, rows: list[Mapping[str, Any]]) -> str:
    figures = " | ".join(f"{mean(row[column] for row in rows):.1f} %" for column in COLUMNS)
    return f"| {margin} | {method} | {figures} |"
