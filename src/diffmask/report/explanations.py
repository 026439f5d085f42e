"""The demo's pictures: what each depth keeps of a sentence, how the share falls with depth, and the rivals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .comparison import LABELS, OURS, ranked, times
from .plain import pieces, short_names
from .style import COLOURS, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWN = 2  # sentences that get a picture of their own
PALE = 0.55  # up to this probability a cell is light enough for black figures


def pictures(result: Mapping[str, Any]) -> dict[str, Figure]:
    """Draw the first sentences depth by depth, the share kept at each depth, and the methods side by side."""
    first = result["explanations"][:DRAWN]
    drawn = {f"sentence-{number}": heat_map(explanation) for number, explanation in enumerate(first, 1)}
    depths = result["explanations"][0]["depths"]
    return {**drawn, "depths": depth_curve(depths, result["summary"]["kept_by_depth"]), "rivals": rival_bars(result)}


def heat_map(explanation: Mapping[str, Any]) -> Figure:
    """Draw the probability of each unit at each depth: written in the cell, and hatched where the unit is dropped."""
    scores, names = explanation["scores"], short_names(explanation["depths"])
    figure, (axis,) = new_figure(1, width=2.2 + 0.42 * len(explanation["units"]), height=1.3 + 0.36 * len(names))
    axis.imshow(scores, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for depth, row in enumerate(scores):
        for unit, score in enumerate(row):
            _write_cell(axis, unit, depth, score, kept=_kept(explanation, depth, unit))
    _label_units(axis, explanation["units"])
    axis.set_yticks(range(len(names)), names, fontsize=8, parse_math=False)
    axis.set_title(_title(explanation), fontsize=9, loc="left", parse_math=False)
    return figure


def _kept(explanation: Mapping[str, Any], depth: int, unit: int) -> bool:
    if depth == explanation["depth"]:
        return bool(explanation["kept"][unit])
    return bool(explanation["scores"][depth][unit] > 0.5)


def _write_cell(axis: Any, unit: int, depth: int, score: float, kept: bool) -> None:
    from matplotlib.patches import Rectangle

    ink = "black" if score <= PALE else "white"
    axis.text(unit, depth, f"{100 * score:.0f}", ha="center", va="center", fontsize=7, color=ink, zorder=3)
    if not kept:
        corner = (unit - 0.5, depth - 0.5)
        axis.add_patch(Rectangle(corner, 1, 1, fill=False, hatch="////", edgecolor="#c8c8c8", linewidth=0))


def _label_units(axis: Any, units: Sequence[str]) -> None:
    labels = [("-" if piece.joined else "") + piece.text for piece in pieces(units)]
    axis.set_xticks(range(len(units)), labels, rotation=55, ha="right", rotation_mode="anchor", fontsize=8)
    for label in axis.get_xticklabels():
        label.set_parse_math(False)  # a price is no formula


def _title(explanation: Mapping[str, Any]) -> str:
    checked, key = explanation["verification"], "probability of being kept, in %; hatched: dropped"
    if checked is None:
        return f"not verified\n{key}"
    verdict = "holds" if checked["within_margin"] else "breaks the margin"
    measured = "∞" if checked["divergence"] is None else f"{checked['divergence']:.3f}"
    said = f"{explanation['prediction']}; kept alone: {checked['masked_prediction']}, divergence {measured} {verdict}"
    return f"{said}\n{key}"


def depth_curve(depths: Sequence[str], shares: Sequence[float]) -> Figure:
    """Draw the mean share of units kept at each depth."""
    figure, (axis,) = new_figure(1, width=4.6, height=2.8)
    axis.plot(range(len(shares)), shares, color=COLOURS[0], marker="o")
    for depth, share in enumerate(shares):
        axis.annotate(f"{share:.0%}", (depth, share), (0, 6), textcoords="offset points", ha="center", fontsize=8)
    axis.set_xticks(range(len(depths)), short_names(depths), fontsize=7, rotation=12)
    axis.set_ylim(0, 1.25 * max(shares) or 1)
    axis.yaxis.set_major_formatter("{x:.0%}")
    axis.tick_params(axis="y", labelsize=7)
    axis.set_xlim(-0.4, len(depths) - 0.6)
    axis.set_ylabel("mean share of units kept", fontsize=8)
    axis.set_xlabel("the probe has read the model up to here", fontsize=8)
    return figure


def rival_bars(result: Mapping[str, Any]) -> Figure:
    """Draw divergence, steadiness and time of every method, the lowest divergence on top."""
    figure, axes = new_figure(3, width=3.0, height=2.8)
    order, count = ranked(result)[::-1], result["summary"]["sentences"]
    names, lines = [name for name, _ in order], [line for _, line in order]
    far = ["∞" if line["divergence"] is None else f"{line['divergence']:.3f}" for line in lines]
    _bars(axes[0], names, [line["divergence"] or 0 for line in lines], far, "mean KL, nats (shorter is better)")
    stays = [line["same_prediction"] / count for line in lines]
    _bars(axes[1], names, stays, [f"{share:.0%}" for share in stays], "prediction stays (longer is better)")
    _bars(axes[2], names, [line["time_ratio"] for line in lines], [times(line) for line in lines], "time, probe = 1")
    axes[1].xaxis.set_major_formatter("{x:.0%}")
    for axis in axes[1:]:
        axis.set_yticklabels([])
    return figure


def _bars(axis: Any, names: Sequence[str], lengths: Sequence[float], written: Sequence[str], title: str) -> None:
    bars = axis.barh(range(len(names)), lengths, color=[COLOURS[0] if name == OURS else COLOURS[2] for name in names])
    for bar, name in zip(bars, names, strict=True):
        bar.set(hatch="" if name == OURS else "//", edgecolor="white")
    axis.bar_label(bars, written, padding=2, fontsize=7)
    axis.set_yticks(range(len(names)), [LABELS.get(name, name) for name in names], fontsize=8)
    axis.tick_params(axis="x", labelsize=7)
    axis.set_xlim(0, 1.3 * max(lengths) or 1)
    axis.set_title(title, fontsize=8)
