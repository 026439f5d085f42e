"""The demo in a terminal: what is kept of each sentence, and the methods side by side, losses as plain as wins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from .plain import pieces, printable

OURS = "probe"
LABELS = {OURS: "DiffMask probe"}
Result = Mapping[str, Any]


def sentences(result: Result) -> Table:
    """List the sentences with what is kept of each, whether that holds, and what the model says to all and to that."""
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("check", "prediction", "sentence", "kept"):
        table.add_column(name, no_wrap=name == "check", max_width=10 if name == "prediction" else None)
    for explanation in result["explanations"]:
        checked, prediction = explanation["verification"], explanation["prediction"]
        check = f"{'✓' if checked['within_margin'] else '✗'} {_number(checked['divergence'])}"
        outcome = "" if checked["same_prediction"] else f" → {checked['masked_prediction']}"
        cells = (check, f"{prediction}{outcome}", printable(explanation["text"]), kept_words(explanation))
        table.add_row(*map(Text, cells))
    return table


def kept_words(explanation: Mapping[str, Any]) -> str:
    """Write the kept units one after the other, pieces of one word joined if both are kept, and … for what is dropped.

    >>> kept_words({"units": ["a", "fun", "##ny", "film"], "kept": [False, True, True, False]})
    '… funny …'
    """
    said, before = "", True
    for piece, keep in zip(pieces(explanation["units"]), explanation["kept"], strict=True):
        if keep:
            said += ("" if piece.joined and before else " ") + piece.text
        elif before or not said:
            said += " …"
        before = keep
    return said.strip()


def comparison(result: Result) -> Table:
    """Show one line per method, the lowest mean divergence first."""
    table, count = Table(box=box.SIMPLE_HEAD), result["summary"]["sentences"]
    for name in ("method", "mean KL", "against the probe", "holds", "stays", "time"):
        table.add_column(name, justify="left" if name == "method" else "right", no_wrap=True)
    for name, line in ranked(result):
        ours = name == OURS
        shares = [f"{line[key]}/{count}" for key in ("within_margin", "same_prediction")]
        cells = (LABELS.get(name, name), _number(line["divergence"]), _gap(line, ours), *shares, times(line))
        table.add_row(*(Text(cell, style="bold" if ours else "") for cell in cells))
    return table


def _gap(line: Mapping[str, Any], ours: bool) -> str:
    if ours or line["gap"] is None:
        return "–"
    error = "?" if line["gap_error"] is None else f"{2 * line['gap_error']:.3f}"
    return f"{line['gap']:+.3f} ± {error}"


def times(line: Mapping[str, Any]) -> str:
    """Write a method's time as a multiple of the probe's."""
    ratio = line["time_ratio"]
    return "<0.01×" if ratio < 0.01 else f"{ratio:.2g}×"


def ranked(result: Result) -> list[tuple[str, Mapping[str, Any]]]:
    """Order the methods by mean divergence; one that is infinite, written as null, comes last."""
    lines = result["summary"]["methods"]
    return sorted(
        lines.items(), key=lambda line: float("inf") if line[1]["divergence"] is None else line[1]["divergence"]
    )


def verdict(result: Result) -> list[str]:
    """Say in plain sentences who stays closer to the model than whom, and what the comparison leaves out."""
    summary, sides = result["summary"], split_by_gap(result)
    return [
        f"{summary['verified']} of {summary['sentences']} explanations hold their margin of {result['margin']:g}; "
        "`diffmask explain --certify` adds units back where one does not.",
        f"By mean KL the probe loses to {_named(sides['lower'])} and wins against {_named(sides['higher'])}; these "
        f"sentences do not tell it from {_named(sides['same'])}.",
        "Every method keeps as many units as the probe. Against the probe: the mean difference in KL and two standard "
        "errors. Holds: KL within the margin. Stays: the prediction is the same. Time: as a multiple of the probe's, "
        "without the fit that it needs once. What is dropped goes to the probe's own baseline, to its advantage.",
    ]


def split_by_gap(result: Result) -> dict[str, list[str]]:
    """Sort the rivals into lower and higher in KL than the probe, and those within two standard errors of it."""
    sides: dict[str, list[str]] = {"lower": [], "higher": [], "same": []}
    for name, line in ranked(result):
        if name != OURS:
            sides[_side(line["gap"], line["gap_error"])].append(name)
    return sides


def _side(gap: float | None, error: float | None) -> str:
    if gap is None or error is None or abs(gap) <= 2 * error:
        return "same"
    return "lower" if gap < 0 else "higher"


def _named(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _number(value: float | None) -> str:
    return "∞" if value is None else f"{value:.4f}"
