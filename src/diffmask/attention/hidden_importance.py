"""How much the answer hangs on each hidden state: by its gradient, and by leaving it out, both in closed form.

    ∂ŷ/∂h_i = ŷ(1 − ŷ) [α_i w + ∂z/∂a_i ∇e(h_i)]     ∂z/∂a_i = j_i (s_i − Σ j_k s_k / Σ j_k)

with e the alignment, and j = α for softmax, √α for entmax-1.5, and 1/(1 − λ) on the support for sparsegen. Leaving a
state out projects the other scores anew; one of weight 0 changes nothing. Meister et al. (2021).
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from .classifier import Attended, AttentiveClassifier
from .evidence import direction, word_margins

Words = Float[Tensor, "document position"]
ALONE = 1e-3  # with less weight on all others, dividing by it would lose figures: project anew instead
ENTRIES = 1 << 23  # scores that are projected at once


@torch.no_grad()
def hidden_gradients(model: AttentiveClassifier, output: Attended) -> Float[Tensor, "document position hidden"]:
    """Return the gradient of the probability to each hidden state."""
    says, weights = word_margins(model, output), output.attention
    weight, bias = direction(model)
    probability = torch.where(output.attended.any(1), (weights * says).sum(1), bias).sigmoid()
    pull = score_gradients(model, output, says)
    each = weights.unsqueeze(-1) * weight + pull.unsqueeze(-1) * model.alignment.slope(output.hidden)
    found = (probability * (1 - probability)).view(-1, 1, 1) * each
    return torch.where(output.attended.unsqueeze(-1), found, 0)


def score_gradients(model: AttentiveClassifier, output: Attended, says: Words) -> Words:
    """Return ∂z/∂a, the gradient of the margin to each alignment score."""
    slope = torch.where(output.attended, projection_slope(model, output.attention), 0)
    said = torch.where(output.attended, says, 0)
    mean = (slope * said).sum(1, keepdim=True) / slope.sum(1, keepdim=True).clamp_min(torch.finfo(slope.dtype).tiny)
    return slope * (said - mean)


def projection_slope(model: AttentiveClassifier, weights: Words) -> Words:
    """Return j, with which the Jacobian of a projection is diag(j) − j jᵀ / Σ j."""
    match model.config.projection:
        case "softmax":
            return weights
        case "entmax15":
            return weights.sqrt()
        case _:
            return (weights > 0).to(weights.dtype) / (1 - model.config.sparsity)


@torch.no_grad()
def hidden_left_out(model: AttentiveClassifier, output: Attended) -> Words:
    """Return |ŷ − ŷ₋ᵢ|, how much the probability changes without each hidden state."""
    says = torch.where(output.attended, word_margins(model, output), 0)
    _, bias = direction(model)
    margin = (output.attention * says).sum(1)
    if model.config.projection == "softmax":
        rest = 1 - output.attention
        left = (margin.unsqueeze(1) - output.attention * says) / rest.clamp_min(ALONE)
        anew = output.attended & (rest < ALONE)
    else:
        left = margin.unsqueeze(1).expand_as(says).clone()
        anew = output.attention > 0
    left = _projected_anew(model, output, says, anew, left, bias)
    change = (margin.sigmoid().unsqueeze(1) - left.sigmoid()).abs()
    # Where a state has no weight, it is left out already, and rounding must not say otherwise.
    return torch.where(output.attended & (output.attention > 0), change, 0)


def _projected_anew(
    model: AttentiveClassifier,
    output: Attended,
    says: Words,
    anew: Bool[Tensor, "document position"],
    left: Words,
    bias: Float[Tensor, ""],
) -> Words:
    """Fill in the margins without one state, for the states that are marked, by projecting the other scores."""
    pairs, left = anew.nonzero(), left.clone()
    for part in torch.split(pairs, max(1, ENTRIES // says.shape[1])):
        rows, places = part[:, 0], part[:, 1]
        others = output.attended[rows].scatter(1, places.unsqueeze(1), False)
        margin = (model.project(output.scores[rows], others) * says[rows]).sum(1)
        left[rows, places] = torch.where(others.any(1), margin, bias.to(margin))
    return left


def shares(sizes: Words, attended: Bool[Tensor, "document position"]) -> Words:
    """Divide importance by its sum over the words of a document; where nothing matters, all are 0."""
    sizes = torch.where(attended, sizes, 0)
    return sizes / sizes.sum(1, keepdim=True).clamp_min(torch.finfo(sizes.dtype).tiny)
