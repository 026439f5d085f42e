"""The sparse-attention study's tables and pictures (Meister et al. 2021)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .attention_tables import cells_table, claims_table, data_table, faithfulness_table
from .style import COLOURS, MARKERS, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLAIMS = {
    "M1": "attention agrees with hidden states more than with inputs",
    "M2": "hidden states depend on many inputs: entropy above 0.5",
    "M3": "the entropy of input gradients falls with λ as in Table 2",
    "M4": "agreement with inputs falls with λ on IMDb (−τ of it with λ)",
    "M5": "a frozen adversary loses accuracy, an unfrozen one does not",
}
TITLES = {
    "3": "Test accuracy",
    "1": "Entropy of the inputs' influence on a hidden state",
    "2": "Kendall's τ-b between λ and the entropy of input gradients",
    "5": "Adversaries; which projection theirs attacked is not printed",
    "6": "Kendall's τ-b of attention with importance; of sparse attention with its nulls",
}
CURVE = ("words with weight", "share of the words", "τ gradient-inputs every", "τ gradient-inputs cut")
KEYS = ("encoder", "projection")


def table(result: Mapping[str, Any]) -> str:
    """Return the claims, the paper's tables with the published figures in brackets, and DiffMask beside attention."""
    summary, rows = result["summary"], [row for row in result["rows"] if not _empty(row)]
    parts = [f"Over {len(result['seeds'])} seeds, ± their standard deviation:", claims_table(summary, CLAIMS)]
    for number, title in TITLES.items():
        parts += [f"Table {number}. {title}:", cells_table(rows, number, KEYS)]
        parts += [_widest(summary["accuracy_gaps"])] if number == "3" and summary["accuracy_gaps"] else []
    along = [row | {"table": "curve"} for row in rows if row["figure"] in CURVE]
    parts += ["Figure 3. Along λ (sparsemax is λ = 0), with the support that came of it:"]
    parts += [cells_table(along, "curve", KEYS)]
    parts += ["Attacks on single documents, which the paper has not:", cells_table(rows, "attacks", KEYS)]
    parts += ["DiffMask beside attention, on the same classifiers:", faithfulness_table(summary["faithfulness"])]
    return "\n\n".join([*parts, data_table(summary["datasets"]), f"{result['vectors']}."])


def _widest(gaps: Mapping[str, float]) -> str:
    name, gap = max(gaps.items(), key=lambda pair: abs(pair[1]))
    return f"The widest gap to a published accuracy is {gap:+.3f}, {name}."


def _empty(row: Mapping[str, Any]) -> bool:
    """Say whether a row says nothing new: softmax has no zeros, so that its agreement is that of all words."""
    return row["projection"] == "softmax" and row["figure"].startswith("τ ") and not row["figure"].endswith(" every")


def pictures(result: Mapping[str, Any]) -> dict[str, Figure]:
    """Draw Figures 1 and 4, the agreement as bars; 2, the entropies; and 3, the agreement along λ."""
    return {
        "gradient": _bars(result, "gradient"),
        "left-out": _bars(result, "left-out"),
        "entropy": _entropies(result),
        "sparsity": _curves(result),
    }


def _bars(result: Mapping[str, Any], way: str) -> Figure:
    rows = [row for row in result["rows"] if row["table"] == "6" and row["figure"].endswith(" every")]
    figure, axes = new_figure(2, width=5.0, height=4.0)
    for axis, of in zip(axes, ("inputs", "states"), strict=True):
        chosen = [row for row in rows if row["figure"] == f"τ {way}-{of} every"]
        names = [f"{row['dataset']}, {row['encoder']}, {row['projection']}" for row in chosen]
        heights, errors = ([row[key] or 0.0 for row in chosen] for key in ("mean", "sd"))
        axis.bar(range(len(chosen)), heights, yerr=errors, color=COLOURS[0])
        axis.set_xticks(range(len(chosen)), names, fontsize=7, rotation=90)
        axis.set_title(f"{way}, {of}", fontsize=9)
    axes[0].set_ylabel("Kendall's τ-b with attention")
    return figure


def _entropies(result: Mapping[str, Any]) -> Figure:
    figure, axes = new_figure(2, width=4.0, height=3.0)
    for axis, kind in zip(axes, ("gradient-inputs", "left-out-inputs"), strict=True):
        jobs = [job for job in result["jobs"] if job["entropy_quantiles"][kind]]
        settings = list(dict.fromkeys((job["dataset"], job["encoder"]) for job in jobs))
        for place, setting in enumerate(settings):
            found = [job["entropy_quantiles"][kind] for job in jobs if (job["dataset"], job["encoder"]) == setting]
            low, left, middle, right, high = (sum(column) / len(found) for column in zip(*found, strict=True))
            axis.plot([place, place], [low, high], color=COLOURS[0])
            axis.plot([place, place], [left, right], color=COLOURS[0], linewidth=5)
            axis.plot([place], [middle], marker=MARKERS[0], color="black")
        axis.set_xticks(range(len(settings)), ["\n".join(setting) for setting in settings], fontsize=6)
        axis.set_ylim(0, 1)
        axis.set_title(f"entropy, {kind}", fontsize=9)
    return figure


def _curves(result: Mapping[str, Any]) -> Figure:
    figure, axes = new_figure(2, width=4.0, height=3.0)
    for axis, encoder in zip(axes, ("bilstm", "transformer"), strict=True):
        jobs = [job for job in result["jobs"] if job["encoder"] == encoder and job["sparsity"] is not None]
        for number, dataset in enumerate(dict.fromkeys(job["dataset"] for job in jobs)):
            points: dict[float, list[float]] = {}
            for job in jobs:
                tau = job["agreement"]["gradient-inputs"]["every"]["mean"]
                if job["dataset"] == dataset and tau is not None:
                    points.setdefault(job["sparsity"], []).append(tau)
            x = sorted(points)
            y = [sum(points[value]) / len(points[value]) for value in x]
            axis.plot(range(len(x)), y, marker=MARKERS[number], color=COLOURS[number], label=dataset)
            axis.set_xticks(range(len(x)), [f"{value:g}" for value in x])
            cut = _cut_points(result, dataset, encoder, x)
            axis.plot(range(len(x)), cut, color=COLOURS[number], linestyle=":")
        axis.set_title(encoder, fontsize=9)
        axis.set_xlabel("λ")
    axes[0].set_ylabel("τ-b with input gradients")
    axes[0].legend(fontsize=7, title="dotted: softmax, cut", title_fontsize=6)
    return figure


def _cut_points(result: Mapping[str, Any], dataset: str, encoder: str, sparsities: Sequence[float]) -> list[float]:
    """Return, along λ, what softmax attention that keeps as many words would give."""
    found = {
        row["projection"]: row["mean"]
        for row in result["rows"]
        if (row["dataset"], row["encoder"], row["figure"]) == (dataset, encoder, "τ gradient-inputs cut")
    }
    names = ["sparsemax" if value == 0 else f"sparsegen {value:g}" for value in sparsities]
    return [float("nan") if found.get(name) is None else float(found[name]) for name in names]
