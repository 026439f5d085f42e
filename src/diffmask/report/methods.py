"""A comparison of methods as a table: in a terminal, as Markdown, CSV, LaTeX. Losses stand as plainly as wins."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

Record = Mapping[str, Any]  # what a Comparison records
ARROWS = {"higher": "↑", "lower": "↓"}
ESCAPED = str.maketrans({sign: f"\\{sign}" for sign in "&%$#_{}"})


def metrics_of(record: Record) -> dict[str, str]:
    """Name the metrics, each with whether higher or lower is better."""
    return {row["metric"]: row["better"] for row in record["rows"]}


def methods_of(record: Record) -> list[str]:
    return list(dict.fromkeys(row["method"] for row in record["rows"]))


def table(record: Record) -> Table:
    """Show methods × metrics with their intervals, and what each method costs, in a terminal."""
    shown, cells = Table(box=box.SIMPLE_HEAD), grid(record)
    for number, name in enumerate(cells[0]):
        shown.add_column(name, justify="right" if number else "left", no_wrap=not number)
    for method, row in zip(methods_of(record), cells[1:], strict=True):
        names = ["", *metrics_of(record), "", ""]
        styles = ["bold" if method in record["first"].get(name, []) else "" for name in names]
        shown.add_row(*(Text(cell, style) for cell, style in zip(row, styles, strict=True)))
    return shown


def markdown(record: Record) -> str:
    """Write the table as Markdown."""
    head, *rows = grid(record)
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


def latex(record: Record) -> str:
    """Write the table as LaTeX, for `booktabs`; what is first by a metric is bold."""
    head, *rows = grid(record)
    lines = [" & ".join(_tex(cell) for cell in row) + r" \\" for row in [head, *rows]]
    columns = "l" + "r" * (len(head) - 1)
    rules = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"]
    return "\n".join([*rules, r"\end{tabular}"])


def as_csv(record: Record) -> str:
    """Write one line for each method and metric, with the cost of the method."""
    keys = ["method", "metric", "better", "mean", "low", "high", "count", "undefined", "forwards", "time_ratio"]
    out = io.StringIO()
    writer = csv.DictWriter(out, keys, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in record["rows"]:
        writer.writerow({**record["costs"].get(row["method"], {}), **row})
    return out.getvalue()


def grid(record: Record) -> list[list[str]]:
    """Lay the table out as text: a * marks who is first by a metric, or cannot be told from the first."""
    metrics = metrics_of(record)
    head = ["method", *(f"{name} {ARROWS[better]}" for name, better in metrics.items()), "forwards", "time"]
    found = {(row["method"], row["metric"]): row for row in record["rows"]}
    return [
        head,
        *(
            [method, *(_cell(found[method, metric], record["first"]) for metric in metrics), *_cost(record, method)]
            for method in methods_of(record)
        ),
    ]


def notes(record: Record) -> list[str]:
    """Say in plain sentences what the table was made from, and what is missing in it."""
    setting = record["setting"]
    said = [
        f"{setting['examples']} examples at site {setting['site']}; a removed unit goes to: {setting['removal']}. "
        "In brackets: 95 % bootstrap interval over the examples. *: first, or not told from the first by the paired "
        "differences. Forwards: arithmetic beside one forward pass; time: likewise, measured in the same run on the "
        "first batch. A probe's fit, needed once, is not counted."
    ]
    missing = [row for row in record["rows"] if row["undefined"]]
    said += [f"{row['method']}, {row['metric']}: not defined for {row['undefined']} examples." for row in missing]
    return said + [_failure(group) for group in _grouped(record["failures"])]


def _grouped(failures: Sequence[Record]) -> list[list[Record]]:
    """Put failures with the same reason together."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for failure in failures:
        groups.setdefault((failure["method"], failure["metric"], failure["reason"]), []).append(failure)
    return list(groups.values())


def _failure(group: Sequence[Record]) -> str:
    first = group[0]
    what = first["method"] + (f", {first['metric']}" if first["metric"] else "")
    return f"{what} failed on {len(group)} examples, first on number {first['example']}: {first['reason']}"


def _cell(row: Record, first: Mapping[str, Sequence[str]]) -> str:
    if not row["count"]:
        return "–"
    mark = "*" if row["method"] in first.get(row["metric"], []) else ""
    return f"{_number(row['mean'])}{mark} [{_number(row['low'])}, {_number(row['high'])}]"


def _cost(record: Record, method: str) -> list[str]:
    cost = record["costs"].get(method)
    if cost is None:
        return ["–", "–"]
    forwards = "?" if cost["forwards"] is None else f"{cost['forwards']:.3g}"
    return [forwards, f"{cost['time_ratio']:.2g}×"]


def _number(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "–"
    return f"{value:.3f}" if math.isfinite(value) else "∞"


def _tex(cell: str) -> str:
    plain = cell.translate(ESCAPED).replace("↑", r"$\uparrow$").replace("↓", r"$\downarrow$")
    plain = plain.replace("×", r"$\times$").replace("∞", r"$\infty$").replace("–", "--")
    return rf"\textbf{{{plain.replace('*', '', 1)}}}" if "*" in plain else plain
