"""Reduce the rows of the sentiment study to the figures it is judged by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

Rows = Sequence[Mapping[str, Any]]
LOST = 3.0  # a probe whose divergence is this many margins has diverged


def summarise(rows: Rows, stability: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the study's figures: means over seeds and depths, and the worst seed where a bar must hold in each.

    They are of the certified masks; those of one threshold for all sentences stand beside them.
    """
    margin = min(row["margin"] for row in rows)
    main = [row for row in rows if row["margin"] == margin and not row["change"]]
    return {
        "seeds": len({row["seed"] for row in main}),
        "diverged": len({(row["seed"], row["kind"]) for row in main if row["divergence"] > LOST * margin}),
        "base_f1": 100 * main[0]["f1_original"],
        **masks(main, "certified_"),
        "input_std": stability["input"]["mean"],
        "hidden_std": stability["hidden"]["mean"],
        "one_threshold": masks(main),
    }


def masks(rows: Rows, how: str = "") -> dict[str, Any]:
    """Return what is masked at which cost: by one threshold for all sentences, or certified for each."""
    found: dict[str, Any] = {
        "kl_max": max(row[f"{how}divergence"] for row in rows),
        "f1_drop_max": max(drop(of_seed(rows, seed, kind), how) for seed, kind in pairs(rows)),
    }
    for kind in ("input", "hidden"):
        some = of_kind(rows, kind)
        found[f"{kind}_masked"] = mean(row[f"{how}masked"] for row in some)
        found[f"{kind}_masked_by_depth"] = by_depth(some, f"{how}masked")
        found[f"{kind}_kl_by_depth"] = by_depth(some, f"{how}divergence")
    return found


def drop(rows: Rows, how: str = "") -> float:
    """Return how many points of macro-F1 one probe's masks cost, on average over its depths."""
    return 100 * mean(row["f1_original"] - row[f"{how}f1"] for row in rows)


def by_depth(rows: Rows, key: str) -> list[float]:
    depths = sorted({row["depth"] for row in rows})
    return [mean(row[key] for row in rows if row["depth"] == depth) for depth in depths]


def of_kind(rows: Rows, kind: str) -> Rows:
    return [row for row in rows if row["kind"] == kind]


def of_seed(rows: Rows, seed: int, kind: str) -> Rows:
    return [row for row in rows if row["seed"] == seed and row["kind"] == kind]


def pairs(rows: Rows) -> set[tuple[int, str]]:
    return {(row["seed"], row["kind"]) for row in rows}
