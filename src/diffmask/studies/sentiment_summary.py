"""Reduce the rows of the sentiment study to the figures it is judged by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

Rows = Sequence[Mapping[str, Any]]
LOST = 3.0  # a probe whose divergence is this many margins has diverged


def summarise(rows: Rows, stability: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the study's figures: means over seeds and depths, and the worst seed where a bar must hold in each."""
    margin = min(row["margin"] for row in rows)
    main = [row for row in rows if row["margin"] == margin and not row["change"]]
    return {
        "seeds": len({row["seed"] for row in main}),
        "diverged": len({(row["seed"], row["kind"]) for row in main if row["divergence"] > LOST * margin}),
        "base_f1": 100 * main[0]["f1_original"],
        "input_masked": mean(row["masked"] for row in of_kind(main, "input")),
        "hidden_masked": mean(row["masked"] for row in of_kind(main, "hidden")),
        "kl_max": max(row["divergence"] for row in main),
        "f1_drop_max": max(drop(of_seed(main, seed, kind)) for seed, kind in pairs(main)),
        "input_std": stability["input"]["mean"],
        "hidden_std": stability["hidden"]["mean"],
        "input_masked_by_depth": by_depth(of_kind(main, "input"), "masked"),
        "hidden_masked_by_depth": by_depth(of_kind(main, "hidden"), "masked"),
        "input_kl_by_depth": by_depth(of_kind(main, "input"), "divergence"),
        "hidden_kl_by_depth": by_depth(of_kind(main, "hidden"), "divergence"),
    }


def drop(rows: Rows) -> float:
    """Return how many points of macro-F1 one probe's masks cost, on average over its depths."""
    return 100 * mean(row["f1_original"] - row["f1"] for row in rows)


def by_depth(rows: Rows, key: str) -> list[float]:
    depths = sorted({row["depth"] for row in rows})
    return [mean(row[key] for row in rows if row["depth"] == depth) for depth in depths]


def of_kind(rows: Rows, kind: str) -> Rows:
    return [row for row in rows if row["kind"] == kind]


def of_seed(rows: Rows, seed: int, kind: str) -> Rows:
    return [row for row in rows if row["seed"] == seed and row["kind"] == kind]


def pairs(rows: Rows) -> set[tuple[int, str]]:
    return {(row["seed"], row["kind"]) for row in rows}
