"""Reduce what the CIFAR-10 study measured to tables: means over images and seeds, with intervals over images."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from statistics import mean, median, stdev
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..evaluation.bootstrap import difference_interval, mean_interval
from ..tasks.stored_images import StoredImages
from ..training.fit import Fit
from ..training.step import look
from .cifar10_curves import (
    CHEFER_READ,
    DISCARDING,
    DISCARDING_MAX,
    FIGURES,
    KEEP_SET,
    LEAST,
    MOST,
    OURS,
    RANKING,
    REFINED,
    REPLACEMENTS,
)

Areas = Mapping[tuple[str, str], Float[Tensor, "figure way image"]]  # by method and replacement
# The rivals of the paper, each in every form that was measured.
PUBLISHED = ("grad-cam", "rollout", DISCARDING, DISCARDING_MAX, "chefer", CHEFER_READ)
RESAMPLES = 2000
PROBABILITY = FIGURES.index("probability")
# What of the areas each column holds; larger is better in all but the first.
COLUMNS: dict[str, Callable[[Tensor], Tensor]] = {
    "area_most_first": lambda ways: ways[MOST],
    "area_least_first": lambda ways: ways[LEAST],
    "difference": lambda ways: ways[LEAST] - ways[MOST],
}


def methods_of(areas: Areas) -> list[str]:
    """List the methods in the order in which they were measured."""
    return list(dict.fromkeys(name for name, _ in areas))


def pooled(
    areas: Sequence[Areas], name: str, replacements: Sequence[str], figure: int, column: str
) -> list[Float[Tensor, " image"]]:
    """Average a column over replacements, image by image, for each seed."""
    found = [torch.stack([seed[name, how][figure] for how in replacements]).mean(0) for seed in areas]
    return [COLUMNS[column](ways) for ways in found]


def interval(seeds: Sequence[Float[Tensor, " image"]]) -> list[float]:
    """Return the mean over images and seeds, and how far it would move with other images.

    The same as `mean_interval`, with the images drawn once for the hundreds of figures of this study.
    """
    figures = torch.stack(list(seeds)).mean(0).double()
    means = (_drawn(len(figures)) @ figures / len(figures)).sort().values
    tail = int(0.025 * (RESAMPLES - 1))
    return [float(figures.mean()), float(means[tail]), float(means[RESAMPLES - 1 - tail])]


@cache
def _drawn(count: int) -> Float[Tensor, "resample image"]:
    """Draw the images of every resample and count how often each is in it."""
    rows = torch.randint(count, (RESAMPLES, count), generator=torch.Generator().manual_seed(0))
    return torch.zeros(RESAMPLES, count, dtype=torch.double).scatter_add_(1, rows, torch.ones_like(rows).double())


def rows_of(areas: Sequence[Areas]) -> list[dict[str, Any]]:
    """Make a row per method, replacement and figure, with the spread over seeds."""
    keys = [(name, how) for name in methods_of(areas[0]) for how in dict.fromkeys(how for _, how in areas[0])]
    return [_row(areas, name, how, number) for name, how in keys for number in range(len(FIGURES))]


def _row(areas: Sequence[Areas], name: str, how: str, number: int) -> dict[str, Any]:
    row: dict[str, Any] = {"method": name, "replacement": how, "measure": FIGURES[number]}
    for column in COLUMNS:
        seeds = pooled(areas, name, [how], number, column)
        row[column] = interval(seeds)
        row[f"{column}_by_seed"] = [float(seed.mean()) for seed in seeds]
    return row


def summarise(
    areas: Sequence[Areas], seeds: Sequence[Mapping[str, Any]], protocol: Mapping[str, Any]
) -> dict[str, Any]:
    """Reduce the rows to the figures the study is judged by."""
    columns = {column: _by_method(areas, column) for column in COLUMNS}
    accuracies, times = [seed["classifier"]["accuracy"] for seed in seeds], times_of(seeds)
    return {
        "accuracy": mean(accuracies),
        "accuracy_min": min(accuracies),
        "images": int(next(iter(areas[0].values())).shape[-1]),
        "seeds": len(seeds),
        "fit_seconds": max(seed["keep_set"]["fit_seconds"] + seed["ranking"]["fit_seconds"] for seed in seeds),
        "floor_share": {part: mean(seed[part]["floor_share"] for seed in seeds) for part in ("keep_set", "ranking")},
        "three_forward_share": {
            part: mean(seed[part]["three_forward_share"] for seed in seeds) for part in ("keep_set", "ranking")
        },
        "explain_flops": max(seed["cost"][0]["flops"] for seed in seeds),
        "explain_time": {count: median(found) for count, found in times.items()},
        "explain_time_spread": spread_of(times),
        **columns,
        "seed_spread": {column: spread_of(_means(areas, column)) for column in COLUMNS},
        "first": {
            "area_least_first": first(areas, KEEP_SET, "area_least_first"),
            "area_most_first": first(areas, RANKING, "area_most_first"),
            "difference": first(areas, RANKING, "difference"),
        },
        "ranking_among_published": {column: first(areas, RANKING, column, PUBLISHED) for column in COLUMNS},
        "refined": {column: first(areas, REFINED, column) for column in COLUMNS},
        "published_protocol": dict(protocol),
    }


def summarise_kept(kept: Sequence[Mapping[tuple[str, str], Float[Tensor, " image"]]]) -> dict[str, Any]:
    """Reduce the shares kept at the margin to each method's mean, and say by how much ours is smaller than the best."""
    names = list(dict.fromkeys(name for name, _ in kept[0]))
    each = {name: [torch.stack([seed[name, how] for how in REPLACEMENTS]).mean(0) for seed in kept] for name in names}
    means = {name: torch.stack(seeds).mean(0) for name, seeds in each.items()}
    rival = min((name for name in names if name not in OURS), key=lambda name: float(means[name].mean()))
    gap = difference_interval(means[rival], means[REFINED])
    return {
        "share": {name: interval(seeds) for name, seeds in each.items()},
        "seed_spread": spread_of({name: [float(seed.mean()) for seed in seeds] for name, seeds in each.items()}),
        "first": {"method": REFINED, "rival": rival, "smaller_by": [gap.mean, gap.low, gap.high]},
    }


def times_of(seeds: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """List what an explanation took with each seed, by the number of images explained together."""
    found = [{str(cost["images"]): cost["time"] for cost in seed["cost"]} for seed in seeds]
    return {count: [times[count] for times in found] for count in found[0]}


def spread_of(by_seed: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the standard deviation over seeds, a sample of those there could be; of a single seed there is none."""
    return {name: stdev(values) for name, values in by_seed.items() if len(values) > 1}


def _by_method(areas: Sequence[Areas], column: str) -> dict[str, list[float]]:
    names = methods_of(areas[0])
    found = {name: interval(pooled(areas, name, REPLACEMENTS, PROBABILITY, column)) for name in names}
    return {**found, **{f"{name}, reversed": _reversed(areas, name, column) for name in (KEEP_SET, RANKING)}}


def _reversed(areas: Sequence[Areas], name: str, column: str) -> list[float]:
    """Return the column of a ranking turned round, whose two curves change places."""
    turned = [{key: value.flip(1) for key, value in seed.items() if key[0] == name} for seed in areas]
    return interval(pooled(turned, name, REPLACEMENTS, PROBABILITY, column))


def _means(areas: Sequence[Areas], column: str) -> dict[str, list[float]]:
    """Return each method's mean with every seed."""
    return {
        name: [float(seed.mean()) for seed in pooled(areas, name, REPLACEMENTS, PROBABILITY, column)]
        for name in methods_of(areas[0])
    }


def first(areas: Sequence[Areas], ours: str, column: str, rivals: Sequence[str] | None = None) -> dict[str, Any]:
    """Compare one of ours with the best rival, image by image: how much better, and whether outside its interval.

    Rivals are all that are not ours, or those given.
    """
    better = -1.0 if column == "area_most_first" else 1.0
    figures = {
        name: better * torch.stack(pooled(areas, name, REPLACEMENTS, PROBABILITY, column)).mean(0)
        for name in methods_of(areas[0])
    }
    rivals = [name for name in rivals or figures if name in figures and name not in OURS]
    rival = max(rivals, key=lambda name: float(figures[name].mean()))
    gap = difference_interval(figures[ours], figures[rival])
    mine, theirs = mean_interval(figures[ours]), mean_interval(figures[rival])
    return {
        "method": ours,
        "rival": rival,
        "better_by": [gap.mean, gap.low, gap.high],
        "outside": mine.mean > theirs.high and gap.low > 0,
        "intervals_apart": mine.low > theirs.high,
    }


@torch.no_grad()
def shown_images(
    fitted: Fit, scores: Mapping[str, Float[Tensor, "image unit"]], examples: Sequence[int], labels: Tensor
) -> dict[str, Any]:
    """Write down a few images with every method's scores, and what the keep set says at every depth.

    An image is its bytes, row by row.
    """
    task = fitted.task
    assert isinstance(task, StoredImages)
    with fitted.model.frozen():
        seen = look(fitted.model, task, task.collate(examples))
        depths = fitted.probe.log_keep(seen.reading).exp()
    names = list(task.labels or [])
    decided = seen.original["label"].raw.argmax(-1).tolist()
    pictures = task.images[task.rows(examples)].permute(0, 2, 3, 1).contiguous().cpu().numpy()
    return {
        "grid": list(task.grid),
        "side": int(pictures.shape[1]),
        "sites": list(fitted.probe.site_names),
        "images": [base64.b64encode(picture.tobytes()).decode() for picture in pictures],
        "labels": [names[int(labels[row])] for row in examples],
        "decided": [names[number] for number in decided],
        "scores": {name: [as_text(row) for row in found[: len(examples)]] for name, found in scores.items()},
        "kept_by_depth": [[as_text(row) for row in depths[:, image]] for image in range(len(examples))],
    }


def as_text(values: Float[Tensor, " unit"]) -> str:
    """Write numbers on one line: a list would take a line for each in the result file."""
    return " ".join(f"{value:.4g}" for value in values.tolist())
