"""What sparsity costs, as a table and as two curves: divergence and macro-F1 against the share masked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .plain import short_names
from .style import COLOURS, MARKERS, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = {"input": "inputs", "hidden": "hidden states"}


def table(result: Mapping[str, Any]) -> str:
    """Return the rows as Markdown, from cautious to bold for each probe and depth."""
    lines = ["| probe, depth | masked | KL | agreement | points of macro-F1 lost |", "|---|---|---|---|---|"]
    names = dict(
        zip([r["site"] for r in result["rows"]], short_names([r["site"] for r in result["rows"]]), strict=True)
    )
    for row in sorted(result["rows"], key=lambda row: (row["kind"] != "input", row["depth"], -row["shift"])):
        cells = [f"{row['masked']:.1%}", f"{row['divergence']:.3f}", f"{row['agreement']:.3f}", f"{row['f1_drop']:.1f}"]
        lines.append(f"| {KINDS[row['kind']]}, {names[row['site']]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def pictures(result: Mapping[str, Any]) -> dict[str, Figure]:
    """Draw what is lost against the share masked: one curve for each probe and depth."""
    figure, axes = new_figure(2, width=3.6, height=3.0)
    for number, (kind, depth) in enumerate(sorted({(row["kind"], row["depth"]) for row in result["rows"]})):
        rows = [row for row in result["rows"] if (row["kind"], row["depth"]) == (kind, depth)]
        rows.sort(key=lambda row: row["masked"])
        style = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}
        for axis, key in zip(axes, ("divergence", "f1_drop"), strict=True):
            label = f"{KINDS[kind]}, depth {depth}"
            axis.plot([row["masked"] for row in rows], [row[key] for row in rows], label=label, **style)
    for axis, name in zip(axes, ("KL", "points of macro-F1 lost"), strict=True):
        axis.set_xlabel("share masked")
        axis.xaxis.set_major_formatter("{x:.0%}")
        axis.set_ylabel(name)
    axes[0].legend(fontsize=7)
    return {"curves": figure}
