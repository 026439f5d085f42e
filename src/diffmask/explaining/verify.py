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
from ..types import NOT_REAL, Prediction, raise_if_broken
from .chunks import broken_rows


@dataclass(frozen=True)
class Measured:
    """A kept set per example, the prediction from it, and its divergence from the original."""

    kept: Bool[Tensor, "batch unit"]
    masked: Prediction
    divergence: Float[Tensor, " batch"]


@torch.no_grad()
def measure(fitted: Fit, seen: Look, depth: int, kept: Bool[Tensor, "batch unit"]) -> Measured:
    """Run the model on the kept units alone."""
    measured = run_kept(fitted, seen, depth, kept)
    check_masked(broken_rows(measured.masked))
    return measured


def run_kept(fitted: Fit, seen: Look, depth: int, kept: Bool[Tensor, "batch unit"]) -> Measured:
    """Do the same, and leave it to the caller to check the prediction once it is known."""
    masked = seen.masked_by(fitted.probe, depth, kept)
    return Measured(kept, masked, divergence(seen.original, masked, fitted.config.objective.divergence))


def check_masked(bad: dict[str, Tensor]) -> None:
    for name, rows in bad.items():
        raise_if_broken(name, rows, " when only the kept units are there")


def verifications(
    fitted: Fit, distances: Float[Tensor, " batch"], original: dict[str, Tensor], masked: dict[str, Tensor]
) -> list[Verification]:
    """Write the measurement of every example down in plain data, from its divergence and its decisions."""
    objective = fitted.config.objective
    decides = any(not answer.is_floating_point() for answer in original.values())
    name = objective.divergence if decides else "squared-error"
    before, after = _by_row(original, len(distances)), _by_row(masked, len(distances))
    return [
        Verification(distance, objective.margin, name, first, second)
        for distance, first, second in zip(distances.tolist(), before, after, strict=True)
    ]


def _by_row(answers: dict[str, Tensor], count: int) -> list[dict[str, Any]]:
    """Turn one list per head into one set of answers per example, without those at positions that are not real."""
    lists = {name: answer.tolist() for name, answer in answers.items()}
    return [{name: _real(values[row]) for name, values in lists.items()} for row in range(count)]


def _real(answer: Any) -> Any:
    if not isinstance(answer, list):
        return answer
    return [each for each in answer if isinstance(each, float) or each != NOT_REAL]  # a value of −1 is one
