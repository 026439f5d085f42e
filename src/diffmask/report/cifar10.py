"""The CIFAR-10 study's tables and pictures: areas by method, curves, heat maps, and what is kept at each depth."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .plain import short_names
from .style import COLOURS, MARKERS, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = {
    "keep set": "**DiffMask, keep set**",
    "ranking": "**DiffMask, ranking**",
    "ranking and comparisons": "**DiffMask, ranking and comparisons**",
}
COLUMNS = {
    "area_least_first": "least important first ↑",
    "area_most_first": "most important first ↓",
    "difference": "difference ↑",
}
SHOWN = (
    "keep set",
    "ranking",
    "ranking and comparisons",
    "grad-cam",
    "rollout",
    "chefer",
    "integrated-gradients",
    "rise",
)
DRAWN = ("ranking", "keep set", "grad-cam", "rollout", "chefer", "rise", "ranking and comparisons", "random")
INKS = (*COLOURS, "#56b4e9", "#000000")  # the last two of Okabe & Ito: one for each that is drawn
REPLACED = ("mean", "zero", "noise")
WIDEST = 22  # letters of a title that are no wider than a picture

PROTOCOL = {
    "most_first_nll": "−log p, most first ↑",
    "least_first_nll": "−log p, least first ↓",
    "most_first_probability": "p, most first ↓",
    "least_first_probability": "p, least first ↑",
}


def table(result: Mapping[str, Any]) -> str:
    """Return what was measured, and beside it what the paper's own protocol gives."""
    return f"{_areas(result['summary'])}\n\n{_protocol(result['summary']['published_protocol'])}"


def _protocol(found: Mapping[str, Any]) -> str:
    """Return a line per method with ours, and what the paper has in brackets."""
    lines = [f"| the paper's protocol, ours (and published) | {' | '.join(PROTOCOL.values())} |", "|---" * 5 + "|"]
    for name, ours in found.items():
        theirs = ours["published"] or {}
        cells = [f"{ours[key]:.1f}" + (f" ({theirs[key]:.1f})" if key in theirs else "") for key in PROTOCOL]
        lines.append(f"| {NAMES.get(name, name)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _areas(summary: Mapping[str, Any]) -> str:
    """Return a line per method, the best difference first: areas with intervals, and the spread over seeds."""
    kept = summary.get("kept", {}).get("share", {})  # older results have none
    heads = [f"{summary['images']} images, {summary['seeds']} seeds", *COLUMNS.values(), "seed spread"]
    heads += ["kept at the margin ↓"] if kept else []
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name in sorted(summary["difference"], key=lambda name: -summary["difference"][name][0]):
        cells = [_cell(summary[column][name]) for column in COLUMNS]
        spread = summary["seed_spread"]["difference"].get(name)
        cells.append("–" if spread is None else f"{spread:.4f}")
        cells += [_cell(kept[name]) if name in kept else "–"] if kept else []
        lines.append(f"| {NAMES.get(name, name)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(values: Sequence[float]) -> str:
    average, low, high = values
    return f"{average:.3f} ({low:.3f} to {high:.3f})"


def pictures(result: Mapping[str, Any]) -> dict[str, Figure]:
    """Draw the heat maps of every method, the perturbation curves, and what is kept at each depth."""
    return {
        "heat-maps": _heat_maps(result["shown"]),
        "curves": _curves(result["curves"]),
        "depths": _depths(result["shown"]),
    }


def heat_maps(result: Mapping[str, Any]) -> dict[str, Figure]:
    """Draw the pictures of a study that has no curves."""
    return {"heat-maps": _heat_maps(result["shown"]), "depths": _depths(result["shown"])}


def no_table(result: Mapping[str, Any]) -> str:
    """Say in one line what was shown, where nothing was measured."""
    return f"{len(result['shown']['images'])} pictures; {result['summary']['target']}"


def _curves(curves: Mapping[str, Any]) -> Figure:
    """Draw the probability that is left, for each replacement: least important first solid, most first dashed."""
    figure, axes = new_figure(len(REPLACED), width=4.2, height=3.6)
    for axis, how in zip(axes, REPLACED, strict=True):
        found = curves[how]["probability"]
        for name, ink in zip(DRAWN, INKS, strict=True):
            if (ways := found.get(name)) is None:
                continue
            style = {"color": ink, "marker": MARKERS[DRAWN.index(name) % len(MARKERS)], "markersize": 3}
            style["linewidth"] = 1.8 if name in NAMES else 0.8
            axis.plot(curves["removed"], ways["least"], label=name, **style)
            axis.plot(curves["removed"], ways["most"], linestyle="--", **style)
        axis.set_title(f"removed patches become {how}", fontsize=8)
        axis.set_xlabel("share of patches removed")
        axis.set_ylim(0, 1.02)
    axes[0].set_ylabel("probability of the decision")
    axes[-1].legend(fontsize=5)
    return figure


def _heat_maps(shown: Mapping[str, Any]) -> Figure:
    """Draw every shown image with the scores of the main methods over it, each scaled to its own range."""
    names = [name for name in SHOWN if name in shown["scores"]]
    maps = [[shown["scores"][name][row] for name in names] for row in range(len(shown["images"]))]
    return _grid(shown, names, maps)


def _depths(shown: Mapping[str, Any]) -> Figure:
    """Draw the probability that a patch is kept, at every depth."""
    return _grid(shown, short_names(shown["sites"]), shown["kept_by_depth"], fixed=True)


def _grid(shown: Mapping[str, Any], names: Sequence[str], maps: Sequence[Sequence[str]], fixed: bool = False) -> Figure:
    figure, _ = new_figure(1, width=1.1 * (len(names) + 1), height=1.25 * len(maps))
    figure.clear()
    axes = figure.subplots(len(maps), len(names) + 1, squeeze=False)
    rows, columns = shown["grid"]
    for row, line in enumerate(axes):
        picture = _picture(shown["images"][row], shown["side"])
        for column, axis in enumerate(line):
            axis.set_axis_off()
            axis.imshow(picture, extent=(0, columns, rows, 0))
            if column:
                values = [float(number) for number in maps[row][column - 1].split()]
                _overlay(axis, values, rows, columns, fixed)
            if row == 0:
                axis.set_title(_wrapped(["image", *names][column]), fontsize=6)
        line[0].text(0, rows, shown["decided"][row], fontsize=6, va="top")
    return figure


def _wrapped(name: str) -> str:
    """Write a long name of a site on several lines: it must not run into its neighbour's."""
    return name.replace(".", ".\n") if len(name) > WIDEST else name


def _overlay(axis: Any, values: Sequence[float], rows: int, columns: int, fixed: bool) -> None:
    low, high = (0.0, 1.0) if fixed else (min(values), max(values))
    scaled = [[(values[r * columns + c] - low) / ((high - low) or 1) for c in range(columns)] for r in range(rows)]
    axis.imshow(scaled, cmap="viridis", vmin=0, vmax=1, alpha=0.65, extent=(0, columns, rows, 0))


def _picture(text: str, side: int) -> Any:
    """Read an image: its bytes as they are, or a compressed picture."""
    import numpy as np

    raw = base64.b64decode(text)
    if len(raw) == 3 * side * side:
        return np.frombuffer(raw, np.uint8).reshape(side, side, 3)
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(raw)))
