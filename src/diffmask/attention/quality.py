"""How well a classifier does: accuracy, F1 and the area under the ROC curve."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import DataError


@dataclass(frozen=True)
class Quality:
    """Accuracy; F1 of class 1, or its mean over more than two classes; area under the ROC curve, of two classes."""

    accuracy: float
    f1: float
    auc: float | None


def measure_quality(logits: Float[Tensor, "document label"], labels: Int[Tensor, " document"]) -> Quality:
    """Compare what a classifier answers with the labels, at a threshold of one half."""
    decided = decide(logits)
    classes = range(max(2, logits.shape[-1]))
    f1 = [f1_score(decided == number, labels == number) for number in classes]
    accuracy = float((decided == labels).double().mean())
    if len(f1) > 2:
        return Quality(accuracy, sum(f1) / len(f1), None)
    margin = logits[:, 0] if logits.shape[-1] == 1 else logits[:, 1] - logits[:, 0]
    return Quality(accuracy, f1[1], area_under_curve(margin, labels == 1))


def decide(logits: Float[Tensor, "document label"]) -> Int[Tensor, " document"]:
    """Return the class a classifier answers with."""
    return (logits[:, 0] > 0).long() if logits.shape[-1] == 1 else logits.argmax(-1)


def f1_score(found: Tensor, true: Tensor) -> float:
    """Return 2·hits / (found + true), 0 where both are none."""
    return float(2 * (found & true).sum() / (found.sum() + true.sum()).clamp_min(1))


def area_under_curve(margin: Float[Tensor, " document"], positive: Tensor) -> float:
    """Return how often a positive document stands above a negative one, a tie counting half."""
    above, below = margin[positive].double(), margin[~positive].double().sort().values
    if not len(above) or not len(below):
        raise DataError(
            "the area under the ROC curve needs documents of both classes, and these have one: select by accuracy, or "
            "give documents of both"
        )
    under = torch.searchsorted(below, above, right=False) + torch.searchsorted(below, above, right=True)
    return float(under.double().mean() / (2 * len(below)))
