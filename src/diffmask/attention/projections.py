"""Turn scores into weights that are at least 0 and add up to 1, on the last axis and over the attended positions only.

    softmax     the p that minimises  Σ p log p − p·a
    sparsemax   …                     ‖p − a‖²                    Martins and Astudillo (2016)
    sparsegen   …                     ‖p − a‖² − λ‖p‖², λ < 1     Laha et al. (2018); it is sparsemax(a / (1 − λ))
    entmax15    …                     4/3 Σ p^1.5 − p·a           Peters, Niculae and Martins (2019)

The sparse ones find their support by sorting, without a gradient; given the support, the weights are a smooth formula
of the scores. So they can be differentiated twice, and under torch.func. Unattended positions get exactly 0, and a row
in which nothing is attended gets 0 everywhere. Half-precision scores are projected in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..errors import SettingError

Scores = Float[Tensor, "*row position"]
Attended = Bool[Tensor, "*row position"]
Projection = Callable[[Tensor, Tensor | None], Tensor]


def softmax(scores: Scores, attended: Attended | None = None) -> Scores:
    """Weigh by the exponential of the scores; no attended position gets 0."""
    z, attended = _centred(scores, attended)
    powers = torch.where(attended, torch.where(attended, z, 0).exp(), 0)
    return (powers / powers.sum(-1, keepdim=True).clamp_min(1)).to(scores.dtype)  # the highest score alone adds 1


def sparsemax(scores: Scores, attended: Attended | None = None) -> Scores:
    """Return the nearest weights to the scores: many of them are 0.

    >>> sparsemax(torch.tensor([1.0, 0.8, -1.0]))
    tensor([0.6000, 0.4000, 0.0000])
    """
    return sparsegen(scores, attended, 0.0)


def sparsegen(scores: Scores, attended: Attended | None = None, sparsity: float = 0.0) -> Scores:
    """Return sparsemax of the scores divided by 1 − λ, where `sparsity` is λ: at 0 sparsemax, toward 1 the largest
    score alone, toward −∞ uniform weights."""
    check_sparsity(sparsity)
    z, attended = _centred(scores, attended)
    z = z / (1 - sparsity)
    support, count = _support(z, attended, _linear_threshold)
    inside = torch.where(support, z, 0)
    threshold = (inside.sum(-1, keepdim=True) - 1) / count
    return torch.where(support, (inside - threshold).clamp_min(0), 0).to(scores.dtype)


def entmax15(scores: Scores, attended: Attended | None = None) -> Scores:
    """Return weights between softmax and sparsemax: the squares of how far half the scores exceed a threshold."""
    z, attended = _centred(scores, attended)
    support, count = _support(z / 2, attended, _square_threshold)
    inside = torch.where(support, z / 2, 0)
    mean = inside.sum(-1, keepdim=True) / count
    threshold = mean - _distance(torch.where(support, inside - mean, 0).square().sum(-1, keepdim=True), count)
    return torch.where(support, (inside - threshold).clamp_min(0).square(), 0).to(scores.dtype)


def check_sparsity(sparsity: float) -> None:
    """Refuse a λ for which nothing is nearest."""
    if not (math.isfinite(sparsity) and sparsity < 1):
        raise SettingError(
            f"sparsity (λ of sparsegen) must be a number below 1, got {sparsity}: at 1 the objective stops being "
            "convex. 0 is sparsemax, closer to 1 is sparser, e.g. 0.9"
        )


def _centred(scores: Tensor, attended: Tensor | None) -> tuple[Tensor, Tensor]:
    """Shift the highest attended score of each row to 0, which no projection sees, and the others to −inf."""
    if attended is None:
        attended = torch.ones_like(scores, dtype=torch.bool)
    z = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
    top = torch.where(attended, z.detach(), -torch.inf).amax(-1, keepdim=True)
    return torch.where(attended, z - torch.where(top == -torch.inf, 0, top), -torch.inf), attended


def _support(z: Tensor, attended: Tensor, threshold: Callable[[Tensor, Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """Say which positions get a weight, and how many: those above the threshold that their own number gives."""
    ordered = z.detach().sort(dim=-1, descending=True).values
    rank = torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=z.dtype)
    finite = torch.where(ordered == -torch.inf, 0, ordered)
    found = threshold(finite, rank)
    # Scores that are above the threshold of the first k of them form one run from the top.
    count = ((ordered > found) & (ordered > -torch.inf)).sum(-1, keepdim=True).clamp_min(1)
    support = (z.detach() > found.gather(-1, count - 1)) & attended
    return support, support.sum(-1, keepdim=True).clamp_min(1).to(z.dtype)


def _linear_threshold(ordered: Tensor, rank: Tensor) -> Tensor:
    """Return the τ for which the first k scores exceed it by 1 in sum, for every k."""
    return (ordered.cumsum(-1) - 1) / rank


def _square_threshold(ordered: Tensor, rank: Tensor) -> Tensor:
    """Return the τ for which the squares of what the first k scores exceed it by add up to 1, for every k."""
    mean, square = ordered.cumsum(-1) / rank, ordered.square().cumsum(-1) / rank
    return mean - _distance((rank * (square - mean.square())).clamp_min(0), rank)


def _distance(spread: Tensor, count: Tensor) -> Tensor:
    """Return how far below their mean the threshold of `count` scores lies, whose squared deviations sum to `spread`.

    Where more scores are taken than can be, the difference is negative, and 0 puts the threshold above the lowest.
    """
    return ((1 - spread) / count).clamp_min(0).sqrt()
