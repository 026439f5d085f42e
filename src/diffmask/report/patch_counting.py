"""The patch-counting study: how often each recipe finds what is counted, how the rivals rank, and what each keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import TYPE_CHECKING, Any

from .style import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = {
    "diffmask": "**DiffMask, ours**",
    "published": "DiffMask, published recipe, λ ascends",
    "published, released sign": "DiffMask, published recipe, λ as released",
}
MEASURES = {
    "auroc": "AUROC",
    "auroc_free": "AUROC, either side",
    "exact": "exact",
    "feasible": "feasible",
    "gap": "patches too many",
    "invariance": "invariant",
    "sensitivity": "sensitive",
}

# What each recipe is called beside its grids; rivals have their own names.
SHORT = {"diffmask": "ours", "published": "published, λ ascends", "published, released sign": "published, as released"}
GONE, LINE = "#ffffff", "#bbbbbb"


def table(result: Mapping[str, Any]) -> str:
    """Return one line per recipe and start, then one per rival: means over seeds, and the worst where it counts."""
    lines = [f"| {len(result['seeds'])} seeds | converged | {' | '.join(MEASURES.values())} |", "|---" * 9 + "|"]
    for method, start in keys(result["rows"]):
        rows = [row for row in result["rows"] if (row["method"], row["start"]) == (method, start)]
        lines.append(
            f"| {_name(method, start)} | {_converged(rows)} | {' | '.join(_cell(rows, m) for m in MEASURES)} |"
        )
    return "\n".join(lines)


def keys(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, float | None]]:
    """List recipes and starts in the order of NAMES, then the rivals, the best first."""
    found = list(dict.fromkeys((row["method"], row["start"]) for row in rows))
    recipes = [key for name in NAMES for key in found if key[0] == name]
    areas = {key: mean(row["auroc"] for row in rows if row["method"] == key[0]) for key in found}
    return recipes + sorted((key for key in found if key[0] not in NAMES), key=lambda key: -areas[key])


def _name(method: str, start: float | None) -> str:
    if method not in NAMES:
        return method
    return f"{NAMES[method]}, from {start:.0%} kept" if start else f"{NAMES[method]}, from the paper's β"


def _converged(rows: Sequence[Mapping[str, Any]]) -> str:
    if "converged" not in rows[0]:
        return "–"
    return f"{sum(row['converged'] for row in rows)} of {len(rows)}"


def _cell(rows: Sequence[Mapping[str, Any]], measure: str) -> str:
    values = [row[measure] for row in rows if row.get(measure) is not None]
    if not values:
        return "–"
    shown = f"{mean(values):.3f}"
    return f"{shown} (worst {min(values):.3f})" if measure in ("auroc", "exact") and len(values) > 1 else shown


def pictures(result: Mapping[str, Any]) -> dict[str, Figure]:
    """Draw some grids and what every method keeps of them; a result from before masks were written has none."""
    shown = result.get("shown", {})
    return {"grids": _grids(shown, _order(result, shown["keep"]))} if shown.get("keep") else {}


def _order(result: Mapping[str, Any], names: Mapping[str, Any]) -> list[str]:
    """List methods as the table does, each once."""
    return [name for name in dict.fromkeys(name for name, _ in keys(result["rows"])) if name in names]


def _grids(shown: Mapping[str, Any], names: Sequence[str]) -> Figure:
    """Draw a row for the grids as they are, then one per method in which white patches are dropped."""
    everything = ["1" * len(grid) for grid in shown["grids"]]
    rows = {"the grid": everything, **{SHORT.get(name, name): shown["keep"][name] for name in names}}
    figure, _ = new_figure(1, width=0.72 * len(everything) + 1.6, height=0.72 * len(rows))
    figure.clear()
    axes = figure.subplots(len(rows), len(everything), squeeze=False)
    for line, (name, masks) in zip(axes, rows.items(), strict=True):
        for axis, grid, keep in zip(line, shown["grids"], masks, strict=True):
            _draw_grid(axis, [shown["palette"][int(colour)] for colour in grid], keep, shown["side"])
        line[0].text(-0.25, shown["side"] / 2, name, ha="right", va="center", fontsize=7)
    return figure


def _draw_grid(axis: Any, colours: Sequence[str], keep: str, side: int) -> None:
    from matplotlib.patches import Rectangle

    for unit, (colour, kept) in enumerate(zip(colours, keep, strict=True)):
        face = colour if kept == "1" else GONE
        axis.add_patch(Rectangle((unit % side, unit // side), 1, 1, facecolor=face, edgecolor=LINE, linewidth=0.6))
    axis.set(xlim=(-0.05, side + 0.05), ylim=(side + 0.05, -0.05), aspect="equal")
    axis.set_axis_off()
