"""Run the model on what was kept, and write down what that changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..explanation import Verification
from ..objective.divergence import divergence
from ..training.fit import Fit
from ..training.step import Look
from ..types import Prediction, check_finite, decisions


@dataclass(frozen=True)
class Measured:
    """A kept set per example, the prediction from it, and its divergence from the original."""

    kept: Bool[Tensor, "batch unit"]
    masked: Prediction
    divergence: Float[Tensor, " batch"]


@torch.no_grad()
def measure(fitted: Fit, seen: Look, depth: int, kept: Bool[Tensor, "batch unit"]) -> Measured:
    """Run the model on the kept units alone."""
    masked = seen.masked_by(fitted.probe, depth, kept)
    check_finite(masked, " when only the kept units are there")
    return Measured(kept, masked, divergence(seen.original, masked, fitted.config.objective.divergence))


def verification(fitted: Fit, seen: Look, measured: Measured, row: int) -> Verification:
    """Write one example's measurement down in plain data."""
    objective = fitted.config.objective
    return Verification(
        divergence=float(measured.divergence[row]),
        margin=objective.margin,
        measure=objective.divergence if decisions(seen.original) else "squared-error",
        original=_decisions(seen.original, row),
        masked=_decisions(measured.masked, row),
    )


def _decisions(prediction: Prediction, row: int) -> dict[str, Any]:
    return {name: decision[row].tolist() for name, decision in decisions(prediction).items()}
