"""The question answering study's table and pictures (De Cao et al. 2020, Figures 7, 8 and 14)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import TYPE_CHECKING, Any

from .curves import depth_curves
from .plain import short_names
from .style import COLOURS, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = {"hidden": "hidden states", "input": "inputs", "around": "inputs, read around"}  # older results lack the last
CURVES = {
    "question_kept": "question",
    "passage_kept": "passage",
    "predicted_answer_kept": "predicted answer",
    "missed_answer_kept": "right answer, where missed",
    "predictions_kept": "predictions kept",
}


def table(result: Mapping[str, Any]) -> str:
    """Return, depth by depth, what is masked of the passage and how many predictions stay."""
    kinds, names = _kinds(result), short_names(_sites(result))
    heads = [
        "depth",
        *(head for kind in kinds for head in (f"passage masked, {KINDS[kind]}", "predictions kept", "KL")),
    ]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for depth, name in enumerate(names):
        cells = [cell for kind in kinds for cell in _cells(result["rows"], kind, depth)]
        lines.append(f"| {' | '.join([name, *cells])} |")
    return "\n".join(lines)


def _kinds(result: Mapping[str, Any]) -> list[str]:
    return [kind for kind in KINDS if any(row["kind"] == kind for row in result["rows"])]


def _cells(rows: Sequence[Mapping[str, Any]], kind: str, depth: int) -> list[str]:
    some = [row for row in rows if row["kind"] == kind and row["depth"] == depth]
    keys = ("passage_masked", "predictions_kept")
    return [*(f"{mean(row[key] for row in some):.1%}" for key in keys), f"{mean(r['divergence'] for r in some):.2f}"]


def _sites(result: Mapping[str, Any]) -> list[str]:
    sites = {row["depth"]: row["site"] for row in result["rows"]}
    return [sites[depth] for depth in sorted(sites)]


def pictures(result: Mapping[str, Any]) -> dict[str, Figure]:
    """Draw the curves of all probes, parts of speech, and one short example."""
    return {
        **{f"curves-{kind}": _curves(result, kind) for kind in _kinds(result)},
        "parts-of-speech": _bars(result["figures"]["input"]["kept_layers_by_part_of_speech"]),
        "example": _example(result["figures"]["input"]),
    }


def _curves(result: Mapping[str, Any], kind: str) -> Figure:
    rows = [row for row in result["rows"] if row["kind"] == kind]
    seeds = sorted({row["seed"] for row in rows})
    curves = {
        name: [[row[key] for row in rows if row["seed"] == seed] for seed in seeds] for key, name in CURVES.items()
    }
    return depth_curves(curves, f"kept, {KINDS[kind]}", _sites(result))


def _bars(layers: Mapping[str, Mapping[str, float]]) -> Figure:
    """Draw at how many depths tokens are kept, by part of speech, in questions and passages."""
    figure, axes = new_figure(2, width=4.2, height=3.4)
    for number, (axis, (part, groups)) in enumerate(zip(axes, layers.items(), strict=True)):
        ordered = sorted(groups.items(), key=lambda pair: pair[1])
        axis.barh([name for name, _ in ordered], [value for _, value in ordered], color=COLOURS[number])
        axis.tick_params(axis="y", labelsize=7)
        axis.set_title(part, fontsize=9)
        axis.set_xlabel("depths at which a token is kept")
    return figure


def _example(data: Mapping[str, Any]) -> Figure:
    """Draw the shortest example: tokens down, depths across, the predicted answer marked with ‹ ›."""
    shown = data["examples"][0]
    start, end = sorted(shown["predicted"])
    marked = [f"‹{token}›" if start <= i <= end else token for i, token in enumerate(shown["tokens"])]
    figure, (axis,) = new_figure(1, width=3.4, height=0.4 + 0.13 * len(marked))
    columns = [list(values) for values in zip(*shown["keep"], strict=True)]
    axis.imshow(columns, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axis.set_yticks(range(len(marked)), marked, fontsize=6, parse_math=False)
    axis.set_xticks(range(len(data["sites"])), short_names(data["sites"]), rotation=60, ha="right", fontsize=6)
    return figure
