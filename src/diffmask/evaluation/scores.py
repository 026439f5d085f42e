"""How good a classifier's answers are against the labels."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor


def accuracy(answers: Int[Tensor, " example"], labels: Int[Tensor, " example"]) -> float:
    """Return the share of answers that are right."""
    return float((answers == labels).float().mean())


def macro_f1(answers: Int[Tensor, " example"], labels: Int[Tensor, " example"]) -> float:
    """Return the mean F1 of the labels that occur, each counted once however frequent it is.

    >>> macro_f1(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]))
    0.6666666865348816
    """
    return float(torch.stack([_f1(answers == label, labels == label) for label in sorted(set(labels.tolist()))]).mean())


def _f1(said: Tensor, true: Tensor) -> Tensor:
    return 2 * (said & true).sum() / (said.sum() + true.sum())
