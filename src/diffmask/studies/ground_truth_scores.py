"""How right scores are, where the truth is known: of their order, of the sets they put first, and of what those do."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..attribution.method import Question
from ..evaluation.ground_truth import divergence_to_truth
from ..evaluation.hits import expected_precision
from ..evaluation.ranking import per_row, places
from ..objective.divergence import agreement, divergence
from ..tasks.truth import Truth
from ..training.step import look


def average_precision(
    scores: Float[Tensor, "batch unit"], relevant: Bool[Tensor, "batch unit"], valid: Bool[Tensor, "batch unit"]
) -> float:
    """Return the mean precision down to each relevant unit, over all orders of equal scores and over the examples."""
    return float(per_row(expected_precision, valid, scores, relevant).mean())


def top_units(
    scores: Float[Tensor, "batch unit"], valid: Bool[Tensor, "batch unit"], counts: Int[Tensor, " batch"], seed: int = 0
) -> Bool[Tensor, "batch unit"]:
    """Mark the units with the highest scores, as many as each example's count; chance decides between equals."""
    noise = torch.rand(scores.shape, generator=torch.Generator().manual_seed(seed)).to(scores.device)
    return places(scores, valid, noise) < counts.unsqueeze(1)


def score(question: Question, scores: Float[Tensor, "batch unit"], truth: Truth, margin: float) -> dict[str, Any]:
    """Compare scores with the truth in every way the study reports.

    `ap`, `kl`, `js` and `exact` (the top units, as many as matter, are those that matter) are about the relevant units;
    `minimal` (the top units, as many as the smallest minimal set has, are one of the minimal sets) about the sufficient
    ones, where more than nothing is needed. `holds` runs the model on the top units, as many as matter.
    """
    valid, relevant = question.batch.valid, truth.relevant
    far = divergence_to_truth(scores, relevant, valid)
    top = top_units(scores, valid, relevant.sum(1))
    return {
        "ap": average_precision(scores, relevant, valid),
        "kl": float(far.kl.mean()),
        "js": float(far.js.mean()),
        "exact": float((top == relevant).all(1).float().mean()),
        "minimal": minimal_share(scores, valid, truth),
        "holds": float(holds(question, top, margin).float().mean()),
    }


def minimal_share(scores: Float[Tensor, "batch unit"], valid: Bool[Tensor, "batch unit"], truth: Truth) -> float | None:
    """Return the share of examples whose top units are a minimal sufficient set; None where nothing is ever enough."""
    counts = torch.tensor([min(map(len, sets)) for sets in truth.sufficient])
    top = top_units(scores, valid, counts.to(valid.device))
    found = [
        frozenset(row.nonzero().flatten().tolist()) in sets
        for row, sets, count in zip(top, truth.sufficient, counts.tolist(), strict=True)
        if count
    ]
    return sum(found) / len(found) if found else None


@torch.no_grad()
def holds(question: Question, keep: Bool[Tensor, "batch unit"], margin: float) -> Bool[Tensor, " batch"]:
    """Say in which examples the kept units alone keep the decision and stay within the margin."""
    with question.model.frozen():
        seen = look(question.model, question.task, question.batch)
        masked = seen.masked_at(question.site_name, keep, question.baseline)
    return (divergence(seen.original, masked) <= margin) & (agreement(seen.original, masked) == 1)
