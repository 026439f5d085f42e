"""The digit study's table and pictures (De Cao et al. 2020, Table 1, Figures 3 and 11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, median
from typing import TYPE_CHECKING, Any

from .style import COLOURS, MARKERS, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = {
    "truth": "the truth",
    "diffmask": "**DiffMask, ours**",
    "published": "DiffMask, published recipe",
    "per-example": "DiffMask per example",
    "erasure": "exact erasure, searched",
    "erasure-published": "exact erasure, as in the paper",
    "integrated-gradients": "integrated gradients",
    "integrated-gradients, at the input": "integrated gradients, at the input",
    "bottleneck": "Schulz et al.",
    "bottleneck, at the input": "Schulz et al., at the input",
    "guan": "Guan et al.",
    "guan, at the input": "Guan et al., at the input",
    "gradient-input": "gradient × input",
    "gradient-input, at the input": "gradient × input, at the input",
    "leave-one-out": "leave one out",
    "leave-one-out, at the input": "leave one out, at the input",
    "uniform": "uniform",
    "random": "random",
}


def table(result: Mapping[str, Any]) -> str:
    """Return the Table 1 rows as Markdown: one line per method, over all seeds."""
    seeds, good = len(result["seeds"]), result["good"]
    head = [
        f"| depth 1, {seeds} seeds | D_KL median (worst) | D_JS median (worst) | D_KL ≤ {good} | kept | divergence |",
        "|---|---|---|---|---|---|",
    ]
    rows = [_line(name, _rows(result, name), good) for name in NAMES if _rows(result, name)]
    return "\n".join(head + rows)


def _rows(result: Mapping[str, Any], method: str) -> list[Mapping[str, Any]]:
    return [row for row in result["rows"] if row["method"] == method and row["depth"] == 1]


def _line(name: str, rows: Sequence[Mapping[str, Any]], good: float) -> str:
    count = sum(row["kl"] is not None and row["kl"] <= good for row in rows)
    means = [f"{mean(row[key] for row in rows):.3f}" if key in rows[0] else "–" for key in ("kept", "divergence")]
    return (
        "| "
        + " | ".join([NAMES[name], _spread(rows, "kl"), _spread(rows, "js"), f"{count} of {len(rows)}", *means])
        + " |"
    )


def _spread(rows: Sequence[Mapping[str, Any]], key: str) -> str:
    values = [row[key] for row in rows]
    if any(value is None for value in values):
        return "∞"  # a method that gives a true unit exactly 0
    return f"{median(values):.4f} ({max(values):.4f})"


def pictures(result: Mapping[str, Any]) -> dict[str, Figure]:
    """Draw one example by every method, and the three clusters of states with what the gates say of them."""
    drawn = result["figures"]
    return {"attribution": _attribution(drawn["attribution"]), "clusters": _clusters(drawn["clusters"])}


def _attribution(data: Mapping[str, Any]) -> Figure:
    first = ["diffmask, depth 0", "diffmask"]
    order = first + [name for name in data["scores"] if name not in first]
    figure, axes = new_figure(len(order), width=2.0, height=2.1)
    for axis, name in zip(axes, order, strict=True):
        places = range(len(data["units"]))
        asked = [int(unit) in data["query"] for unit in data["units"]]
        bars = axis.bar(places, data["scores"][name], color=[COLOURS[0] if a else COLOURS[2] for a in asked])
        for bar, a in zip(bars, asked, strict=True):
            bar.set_hatch("" if a else "//")
        axis.set_xticks(places, data["units"])
        axis.set_ylim(0, 1)
        axis.set_title("diffmask, depth 1" if name == "diffmask" else name, fontsize=9)
    axes[0].set_ylabel("share of the attribution")
    figure.suptitle(f"query {data['query'][0]} and {data['query'][1]}; hatched: not asked for", fontsize=9)
    return figure


def _clusters(data: Mapping[str, Any]) -> Figure:
    figure, axes = new_figure(2, width=3.6, height=3.2)
    for role, name in enumerate(data["role_names"]):
        points = [state for state, r in zip(data["states"], data["roles"], strict=True) if r == role]
        x, y = zip(*points, strict=True)
        axes[0].scatter(x, y, s=12, color=COLOURS[role], marker=MARKERS[role], label=name)
    x, y = zip(*data["states"], strict=True)
    shown = axes[1].scatter(x, y, s=12, c=data["keep"], cmap="cividis", vmin=0, vmax=1)
    for axis, title in zip(axes, ("what the unit is", "probability that it is kept"), strict=True):
        axis.scatter(*data["baseline"], s=70, marker="x", color="black", label="baseline")
        axis.set_title(title, fontsize=9)
    axes[0].legend(fontsize=7)
    figure.colorbar(shown, ax=axes[1])
    return figure
