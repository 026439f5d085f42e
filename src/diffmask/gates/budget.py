"""Keep exactly so many units: the highest-scored ones, with the gradient of a soft choice (straight through).

    z = σ((s − t) / τ), with t such that Σ z = k        ∂t/∂s_i = w_i / Σ w, w = z·(1 − z)
    keep = [s among the k highest] + z − sg(z)

The mask is exactly 0 or 1 when it is used, so nothing leaks through a gate that is half open.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

HALVINGS = 50  # of the interval in which the threshold lies, to the last digits of float64
FAR = 1e4  # a score so low that padding is never among the highest, and finite, so that its gradient is 0 and not NaN


def keep_highest(
    scores: Float[Tensor, "batch unit"], count: Int[Tensor, " batch"], valid: Bool[Tensor, "batch unit"]
) -> Float[Tensor, "batch unit"]:
    """Keep the `count` highest-scored real units of each example; of equal ones the first.

    >>> keep_highest(torch.tensor([[1.0, 3.0, 2.0]]), torch.tensor([2]), torch.ones(1, 3, dtype=torch.bool))
    tensor([[0., 1., 1.]])
    """
    order = torch.where(valid, scores, -torch.inf).argsort(dim=1, descending=True, stable=True)
    place = torch.empty_like(order).scatter_(
        1, order, torch.arange(order.shape[1], device=order.device).expand_as(order)
    )
    return ((place < count.unsqueeze(1)) & valid).float()


def soft_highest(
    scores: Float[Tensor, "batch unit"],
    count: Int[Tensor, " batch"],
    valid: Bool[Tensor, "batch unit"],
    temperature: float = 1.0,
) -> Float[Tensor, "batch unit"]:
    """Spread `count` over the real units of each example by their scores, each at most 1; differentiable in them."""
    low = torch.where(valid, scores, -FAR)
    found = _threshold(low.detach(), count, temperature)
    with torch.no_grad():
        soft = torch.sigmoid((low - found) / temperature)
        weight = soft * (1 - soft)
        weight = weight / weight.sum(1, keepdim=True).clamp_min(1e-12)
    threshold = found + (weight * (low - low.detach())).sum(1, keepdim=True)  # the same number, with its gradient
    return torch.sigmoid((low - threshold) / temperature) * valid


def _threshold(
    scores: Float[Tensor, "batch unit"], count: Int[Tensor, " batch"], temperature: float
) -> Float[Tensor, "batch 1"]:
    """Find by bisection where the soft choice adds up to `count`."""
    real = torch.where(scores > -FAR, scores, torch.nan)
    wide = 40 * temperature  # beyond which σ is 0 or 1 to the last digit
    low = real.nan_to_num(torch.inf).amin(1, keepdim=True) - wide
    high = real.nan_to_num(-torch.inf).amax(1, keepdim=True) + wide
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        more = torch.sigmoid((scores - middle) / temperature).sum(1, keepdim=True) > count.unsqueeze(1)
        low, high = torch.where(more, middle, low), torch.where(more, high, middle)
    return (low + high) / 2


def straight_through(
    scores: Float[Tensor, "batch unit"],
    count: Int[Tensor, " batch"],
    valid: Bool[Tensor, "batch unit"],
    temperature: float = 1.0,
) -> Float[Tensor, "batch unit"]:
    """Keep exactly the highest-scored units, with the gradient of the soft choice."""
    soft = soft_highest(scores, count, valid, temperature)
    return keep_highest(scores.detach(), count, valid) + (soft - soft.detach())


def draw_counts(valid: Bool[Tensor, "batch unit"], generator: torch.Generator) -> Int[Tensor, " batch"]:
    """Draw for each example how many units are kept: at least one and, if there are two, never all."""
    most = (valid.sum(1) - 1).clamp_min(1)
    share = torch.rand(len(valid), generator=generator, device=valid.device)
    return 1 + (share * most).long().clamp_max(most - 1)


def logistic_noise(like: Float[Tensor, "batch unit"], generator: torch.Generator) -> Float[Tensor, "batch unit"]:
    """Draw logistic noise for every unit."""
    uniform = torch.rand(like.shape, generator=generator, device=like.device)
    return uniform.clamp(1e-6, 1 - 1e-6).logit()
