"""The table of what things cost: each figure beside its bar."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# What is measured, whether it should be at most or at least its bar, and the bar.
BARS: dict[str, tuple[str, str, float]] = {
    "explain_over_forward_cpu": ("explain at all depths, unverified ÷ forward, CPU", "≤", 1.15),
    "explain_over_forward_gpu": ("the same on a GPU, bfloat16, recorded", "≤", 1.25),
    "ig_over_explain": ("integrated gradients (Captum, 50 steps) ÷ explain", "≥", 60),
    "loo_over_explain": ("leave-one-out at 32 tokens ÷ explain", "≥", 25),
    "shap_over_explain": ("KernelSHAP (Captum, 200 samples) ÷ explain", "≥", 150),
    "input_step": ("fit step ÷ forward, input probe", "≤", 3.4),
    "input_step_cached": ("the same with a cache", "≤", 2.4),
    "hidden_step": ("fit step ÷ forward, hidden probe, mean over depths", "≤", 2.5),
    "hidden_step_cached": ("the same with a cache", "≤", 1.5),
    "memory_over_finetune": ("peak memory of a fit step ÷ of fine-tuning, CPU", "≤", 0.6),
    "memory_over_finetune_gpu": ("the same on a GPU", "≤", 0.6),
    "fit_speedup": ("reference procedure ÷ whole fit, treebank", "≥", 20),
    "bulk_over_local": ("rows a second, bulk ÷ local batches", "≥", 0.85),
}


def table(result: Mapping[str, Any]) -> str:
    """Return one line per bar, then what was measured beside them on each device."""
    lines = ["| MiniLM, batch 64 | measured | bar |", "|---|---|---|"]
    for name, (what, sign, bar) in BARS.items():
        lines.append(f"| {what} | {_measured(result['summary'].get(name), sign, bar)} | {sign} {bar:g} |")
    lines += [_growth(row) for row in result["rows"] if row["part"] == "growth"]
    lines += ["", "| part | model | device | measure | ratio | quartiles |", "|---|---|---|---|---|---|"]
    return "\n".join(lines + [_line(row) for row in result["rows"]])


def _measured(value: float | None, sign: str, bar: float) -> str:
    """Show a figure, and say where it misses its bar."""
    missed = value is not None and (value > bar if sign == "≤" else value < bar)
    return f"{_number(value)}{', missed' if missed else ''}"


def _growth(row: Mapping[str, Any]) -> str:
    """Show how time grows with units, layers or examples, as the power of their number, beside the model's own."""
    what = row["measure"].removeprefix("slope over ") + (", GPU" if row["device"] == "cuda" else "")
    return (
        f"| explain grows with {what}, to the power of | {_number(row['ratio'])} | the model's: {row['forward']:.3g} |"
    )


def _line(row: Mapping[str, Any]) -> str:
    bounds = f"{row['low']:.2f} to {row['high']:.2f}" if "low" in row else "–"
    cells = (row["part"], row["model"], row["device"], row["measure"], _number(row["ratio"]), bounds)
    return f"| {' | '.join(cells)} |"


def _number(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.3g}"
