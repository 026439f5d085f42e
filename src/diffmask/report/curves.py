"""Pictures that several studies share: curves over depth, and tokens by depth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import TYPE_CHECKING, Any

from .plain import short_names
from .style import COLOURS, MARKERS, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def depth_curves(curves: Mapping[str, Sequence[Sequence[float]]], label: str, sites: Sequence[str]) -> Figure:
    """Draw the mean over seeds of each curve, and every seed thin beside it."""
    figure, (axis,) = new_figure(1, width=5.6, height=3.2)
    for number, (name, seeds) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        for curve in seeds:
            axis.plot(range(len(curve)), curve, color=colour, linewidth=0.6, alpha=0.5)
        means = [mean(values) for values in zip(*seeds, strict=True)]
        axis.plot(range(len(means)), means, color=colour, marker=MARKERS[number % len(MARKERS)], label=name)
    axis.set_xticks(range(len(sites)), short_names(sites), fontsize=7, rotation=20)
    axis.set_ylim(0, 1.02)
    axis.yaxis.set_major_formatter("{x:.0%}")
    axis.set_ylabel(label)
    axis.legend(fontsize=7)
    return figure


def heat_maps(example: Mapping[str, Any]) -> Figure:
    """Draw one sentence by every method: tokens across, depths down; each depth is scaled to its largest score."""
    methods = list(example["scores"])
    figure, axes = new_figure(len(methods), width=2.6, height=2.6)
    for axis, name in zip(axes, methods, strict=True):
        scaled = [[value / (max(row) or 1) for value in row] for row in example["scores"][name]]
        axis.imshow(scaled, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        axis.set_xticks(range(len(example["units"])), example["units"], rotation=60, ha="right", fontsize=7)
        axis.set_title(name, fontsize=8)
        axis.set_yticks([])
    names = short_names(example["sites"])
    axes[0].set_yticks(range(len(names)), names, fontsize=6)
    return figure
