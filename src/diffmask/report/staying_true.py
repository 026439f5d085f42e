"""The staying-true study's tables and pictures (Tutek and Šnajder 2020)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .attention_tables import cells_table, claims_table, data_table, faithfulness_table, seeds_of
from .style import COLOURS, MARKERS, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLAIMS = {
    "T1": "tying and MLM make more hang on the attention, at about the same F1",
    "T2": "hidden states keep their words: residual, then tying, then MLM, then base",
    "T3": "single words are less sure of the answer under tying and MLM",
    "T4": "deeper base classifiers hang less on their attention",
    "T5": "dot attention drawn by default stays uniform, drawn from N(0, 1) it does not",
}
TITLES = {
    "1": "F1, and what uniform and permuted attention take from it",
    "2": "Mutual information of words and hidden states, in nats: plain, by chance, and the difference",
    "3": "Probability of the answer with all weight on one word",
    "6": "Table 1 for deeper encoders",
    "figure 1": "What an adversary costs: JSD of the attention, TVD of the answers",
}
KEYS = ("alignment", "layers", "variant")


def table(result: Mapping[str, Any]) -> str:
    """Return the claims, the paper's tables with the published figures in brackets, and DiffMask beside attention."""
    summary, rows = result["summary"], result["rows"]
    parts = [_about(result), claims_table(summary, CLAIMS)]
    for number, title in TITLES.items():
        name = number.capitalize() if number.startswith("figure") else f"Table {number}"
        parts += [f"{name}. {title} ({seeds_of(rows, number)}):", cells_table(rows, number, KEYS)]
    parts += ["DiffMask beside attention, on the same classifiers:", faithfulness_table(summary["faithfulness"])]
    return "\n\n".join([*parts, data_table(summary["datasets"]), f"{result['vectors']}."])


def _about(result: Mapping[str, Any]) -> str:
    """Say over how many seeds the figures are, and what is not finished."""
    said, jobs = f"Over up to {len(result['seeds'])} seeds, ± their standard deviation", result["jobs"]
    if len(jobs) == result["wanted"]:
        return f"{said}:"
    seeds = {name: len({job["seed"] for job in jobs if job["dataset"] == name}) for name in _names(jobs)}
    counts = ", ".join(f"{name} {count}" for name, count in seeds.items())
    return (
        f"{said}, or as many as are finished ({counts}; a figure without ± is of one). {len(jobs)} of "
        f"{result['wanted']} classifiers are trained:"
    )


def _names(jobs: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(job["dataset"] for job in jobs))


def pictures(result: Mapping[str, Any]) -> dict[str, Figure]:
    """Draw Figure 1, what other attention costs, and Figure 2, what single words answer."""
    return {"adversaries": _adversaries(result), "words": _words(result)}


def _adversaries(result: Mapping[str, Any]) -> Figure:
    jobs = [job for job in result["jobs"] if job.get("adversaries")]
    datasets = _names(jobs)
    figure, axes = new_figure(len(datasets), width=3.0, height=2.8)
    for axis, dataset in zip(axes, datasets, strict=True):
        for number, variant in enumerate(("base", "mlm")):
            points = [
                (point["divergence"], point["distance"])
                for job in jobs
                if (job["dataset"], job["variant"]) == (dataset, variant)
                for point in job["adversaries"]
            ]
            x, y = zip(*sorted(points), strict=True)
            axis.scatter(x, y, s=14, marker=MARKERS[number], color=COLOURS[number], label=variant)
        axis.set_title(dataset, fontsize=9)
        axis.set_xlabel("JSD of the attention")
    axes[0].set_ylabel("TVD of the answers")
    axes[0].legend(fontsize=7)
    return figure


def _words(result: Mapping[str, Any]) -> Figure:
    jobs = [job for job in result["jobs"] if job.get("shown")]
    chosen = {job["variant"]: job["shown"][0] for job in reversed(jobs) if job["dataset"] == jobs[0]["dataset"]}
    figure, axes = new_figure(len(chosen), width=3.2, height=2.6)
    for axis, (variant, document) in zip(axes, chosen.items(), strict=True):
        places = range(len(document["words"]))
        axis.bar(places, document["probability"], color=COLOURS[0], label="probability by one word")
        axis.plot(places, document["attention"], color="black", marker=MARKERS[1], label="attention")
        axis.set_xticks(places, document["words"], rotation=90, fontsize=6)
        axis.set_ylim(0, 1)
        axis.set_title(variant, fontsize=9)
    axes[0].legend(fontsize=6)
    return figure
