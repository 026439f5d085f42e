"""The sentiment study's table and pictures (De Cao et al. 2020, Figures 4, 5, 6 and 13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import TYPE_CHECKING, Any

from .curves import depth_curves, heat_maps
from .style import COLOURS, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABELS = {
    "": "",
    "no-baseline": ": zeros for a baseline",
    "network": ": networks that vote",
    "coupled": ": votes coupled as published",
}
WAYS = {"certified": "certified_", "one threshold": ""}  # how sentences are cut, and how their figures begin
KINDS = {"input": "inputs", "hidden": "hidden states"}
ORDER = ("very negative", "negative", "neutral", "positive", "very positive")


def table(result: Mapping[str, Any]) -> str:
    """Return the study as Markdown: a line per kind of probe, margin and way to cut, and the paper's figures."""
    lines = [
        "| probe, margin | seeds | masked | first … last depth | KL, worst | agreement | macro-F1 | seeds: std (ρ) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for kind, name in KINDS.items():
        for margin in result["margins"]:
            if not (rows := _rows(result, kind, margin)):
                continue  # one of the jobs a stopped study has left
            spread = _spread(result["stability"][kind]) if margin == min(result["margins"]) else "–"
            seeds = str(len({row["seed"] for row in rows}))
            lines += [_line(f"{name}, {way}, {margin}", seeds, *_cells(rows, how), spread) for way, how in WAYS.items()]
    lines.append("| *published (BERT-base)*, inputs | 5 | 46.3 % | | | | 37.9 → 38.3 | 0.05 |")
    lines.append("| *published (BERT-base)*, hidden states | 5 | 67.6 % | | | | 37.9 → 38.9 | 0.03 |")
    return "\n".join(lines)


def changes(result: Mapping[str, Any]) -> str:
    """Return what one change to the recipe does, beside the probe of the same seed without it."""
    lines = [
        "| probe of one seed | masked | first … last depth | KL, worst | agreement | macro-F1 |",
        "|---|---|---|---|---|---|",
    ]
    for kind, name in KINDS.items():
        for change in dict.fromkeys(row["change"] for row in result["rows"] if row["kind"] == kind):
            rows = [row for row in _rows(result, kind, min(result["margins"]), change) if row["seed"] == 0]
            lines += [_line(f"{name}, {way}{LABELS[change]}", *_cells(rows, how)) for way, how in WAYS.items()]
    return "\n".join(lines)


def _rows(result: Mapping[str, Any], kind: str, margin: float, change: str = "") -> list[Mapping[str, Any]]:
    wanted = (kind, margin, change)
    return [row for row in result["rows"] if (row["kind"], row["margin"], row["change"]) == wanted]


def _cells(rows: Sequence[Mapping[str, Any]], how: str) -> list[str]:
    """Say what the masks of some probes drop, at all depths and at both ends, and what that changes."""
    last = max(row["depth"] for row in rows)
    ends = [mean(row[f"{how}masked"] for row in rows if row["depth"] == depth) for depth in (0, last)]
    return [
        f"{mean(row[f'{how}masked'] for row in rows):.1%}",
        f"{ends[0]:.1%} … {ends[1]:.1%}",
        f"{max(row[f'{how}divergence'] for row in rows):.3f}",
        f"{mean(row[f'{how}agreement'] for row in rows):.3f}",
        f"{100 * rows[0]['f1_original']:.1f} → {100 * mean(row[f'{how}f1'] for row in rows):.1f}",
    ]


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _spread(stability: Mapping[str, Any]) -> str:
    """Return how far seeds lie apart, and how alike they order the units of a sentence."""
    alike = stability.get("rank_correlation")
    return f"{stability['mean']:.3f}" + ("" if alike is None else f" (ρ {alike:.2f})")


def pictures(result: Mapping[str, Any]) -> dict[str, Figure]:
    """Draw the share masked by depth, kept layers by sentiment and part of speech, and one sentence by every method."""
    shown, margin = result["figures"], min(result["margins"])
    curves = {name: _by_seed(result["rows"], kind, margin) for kind, name in KINDS.items()}
    return {
        "depths": depth_curves(curves, "share masked", _names(result)),
        "kept-layers": _bars(shown["kept_layers"]),
        **{f"example-{kind}": heat_maps(shown["example"][kind]) for kind in KINDS},
    }


def _names(result: Mapping[str, Any]) -> list[str]:
    sites = {row["depth"]: row["site"] for row in result["rows"]}
    return [sites[depth] for depth in sorted(sites)]


def _by_seed(rows: Sequence[Mapping[str, Any]], kind: str, margin: float) -> list[list[float]]:
    """Return one curve over depths for each seed: what is masked where each prediction was measured to hold."""
    some = [row for row in rows if row["kind"] == kind and row["margin"] == margin and not row["change"]]
    seeds = sorted({row["seed"] for row in some})
    return [[row["certified_masked"] for row in some if row["seed"] == seed] for seed in seeds]


def _bars(layers: Mapping[str, Any]) -> Figure:
    """Draw at how many depths units are kept, by sentiment and by part of speech, for both probes."""
    figure, axes = new_figure(2, width=5.2, height=3.4)
    parts = sorted(layers["hidden"]["by_part_of_speech"].items(), key=lambda pair: -pair[1]["mean"])
    groups = {"by_sentiment": list(ORDER), "by_part_of_speech": [name for name, _ in parts]}
    for axis, (key, names) in zip(axes, groups.items(), strict=True):
        for number, (kind, label) in enumerate(KINDS.items()):
            means = [layers[kind][key].get(name, {"mean": 0})["mean"] for name in names]
            places = [place + 0.4 * number for place in range(len(names))]
            axis.barh(places, means, 0.38, color=COLOURS[number], hatch=("", "//")[number], label=label)
        axis.set_yticks([place + 0.2 for place in range(len(names))], names, fontsize=7)
        axis.invert_yaxis()
        axis.set_xlabel("depths at which a unit is kept")
    axes[0].legend(fontsize=7)
    return figure
