"""Other attention for the same answer: uniform, permuted, and as different as can be while the answer stays.

Jain and Wallace (2019) searched for adversarial weights by gradient descent. The answer depends on the weights through
Σ α̂_t s_t alone, and the divergence to the model's own weights is convex. So its maximum over {α̂ : |ŷ − ŷ̂| ≤ ε} lies
at a corner: all weight on one word that says about the same, or shared by two so that the answer is just within ε.
That makes the exact maximum one look at every pair of words.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError
from .evidence import Evidence

Weights = Float[Tensor, "*draw document word"]
PAIRS = 1 << 22  # pairs of words that are looked at at once
LOG2 = math.log(2)


@dataclass(frozen=True)
class Adversary:
    """The most different weights found for each document, their divergence in nats, and how the answer changed."""

    attention: Float[Tensor, "document word"]
    divergence: Float[Tensor, " document"]
    change: Float[Tensor, " document"]


@dataclass(frozen=True)
class SearchConfig:
    """How adversarial weights are searched; the defaults are Jain and Wallace's."""

    candidates: Annotated[int, "weights that are searched for at once, and pushed apart"] = 5
    steps: Annotated[int, "of Adam"] = 500
    learning_rate: Annotated[float, "of Adam"] = 0.01
    penalty: Annotated[float, "per unit of probability beyond the target"] = 500.0
    target: Annotated[float, "change of the probability that costs nothing"] = 0.01
    tolerance: Annotated[float, "change of the probability beyond which a candidate is thrown away"] = 0.05
    seed: Annotated[int, "of where the search starts"] = 0


def uniform_attention(evidence: Evidence) -> Float[Tensor, "document word"]:
    """Give every word the same weight."""
    return evidence.attended.double() / evidence.attended.sum(1, keepdim=True).clamp_min(1)


def permuted_attention(evidence: Evidence, draws: int = 20, seed: int = 0) -> Float[Tensor, "draw document word"]:
    """Deal the weights of each document out to its words at random."""
    if draws < 1:
        raise SettingError(f"draws of permuted attention must be at least 1, got {draws}")
    keys = torch.where(evidence.attended, draw_words(evidence, draws, seed, torch.rand), torch.inf)
    own = (~evidence.attended).int().argsort(dim=1, stable=True).expand_as(keys)
    dealt = evidence.attention.expand_as(keys).gather(-1, keys.argsort(dim=-1, stable=True))
    return torch.zeros_like(dealt).scatter(-1, own, dealt)


def draw_words(
    evidence: Evidence, draws: int, seed: int, draw: Callable[..., Tensor] = torch.randn
) -> Float[Tensor, "draw document word"]:
    """Draw a number per word from its document's own stream, so that neither order nor padding matters."""
    found, attended = torch.zeros(draws, *evidence.attended.shape, dtype=torch.double), evidence.attended.cpu()
    for row, own in enumerate(evidence.seeds):
        generator = torch.Generator().manual_seed((own + 7919 * seed) % (1 << 63))
        words = attended[row].nonzero().flatten()
        found[:, row, words] = draw(draws, len(words), generator=generator, dtype=torch.double)
    return found.to(evidence.attended.device)


def jensen_shannon(first: Weights, second: Weights) -> Float[Tensor, "*draw document"]:
    """Return the Jensen-Shannon divergence in nats, between 0 and ln 2; weights of 0 are fine."""
    middle = (first + second) / 2
    return ((_excess(first, middle) + _excess(second, middle)) / 2).clamp_min(0)


def _excess(weights: Tensor, middle: Tensor) -> Tensor:
    """Return Σ p ln(p/m); the slope at p = 0 is kept finite, so that it times a projection's 0 is 0."""
    tiny = torch.finfo(weights.dtype).tiny
    return (weights * (weights.clamp_min(tiny).log() - middle.clamp_min(tiny).log())).sum(-1)


def exact_adversary(evidence: Evidence, tolerance: float = 0.05) -> Adversary:
    """Find the weights that diverge most from a document's own while its probability moves by `tolerance` at most."""
    if not 0 <= tolerance < 1:
        raise SettingError(f"tolerance of an adversary is a change of probability, in [0, 1), got {tolerance}")
    size = max(1, PAIRS // evidence.attended.shape[1] ** 2)
    starts = range(0, len(evidence), size)
    parts = [_exact(evidence.part(slice(start, start + size)), tolerance) for start in starts]
    attention = torch.cat(parts)
    own = evidence.attention
    return Adversary(attention, jensen_shannon(attention, own), _change(evidence, attention))


def _exact(evidence: Evidence, tolerance: float) -> Float[Tensor, "document word"]:
    """Look at every corner: both answers that are just within the tolerance, for every pair of words."""
    own, says, attended, probability = evidence.attention, evidence.says, evidence.attended, evidence.probability
    best, found = torch.full_like(probability, -1.0), own.clone()
    low, high = (probability - tolerance).clamp_min(0).logit(), (probability + tolerance).clamp_max(1).logit()
    for bound in (low, high):
        value, first, second, share = _best_pair(own, says, attended, bound)
        weights = torch.zeros_like(own).scatter_add(1, first, share).scatter_add(1, second, 1 - share)
        found, best = torch.where((value > best).unsqueeze(1), weights, found), torch.maximum(value, best)
    within = attended & (says >= low.unsqueeze(1)) & (says <= high.unsqueeze(1))
    alone = torch.where(within, (1 - own) * LOG2 + _term(torch.ones_like(own), own), -1.0).max(1)
    single = torch.zeros_like(own).scatter(1, alone.indices.unsqueeze(1), 1.0)
    return torch.where((alone.values > best).unsqueeze(1), single, found)


def _best_pair(own: Tensor, says: Tensor, attended: Tensor, bound: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return twice the divergence of the best pair whose shared answer is the bound, the pair, the first's share."""
    below, above = says.unsqueeze(2), says.unsqueeze(1)  # (document, first, second)
    aim = bound.view(-1, 1, 1)
    fits = attended.unsqueeze(2) & attended.unsqueeze(1) & (below < aim) & (aim < above)
    share = torch.where(fits, (above - aim) / (above - below), 0.0).clamp(0, 1)
    first, second = own.unsqueeze(2), own.unsqueeze(1)
    value = (1 - first - second) * LOG2 + _term(share, first) + _term(1 - share, second)
    best = torch.where(fits, value, -1.0).flatten(1).max(1)
    i, j = best.indices // own.shape[1], best.indices % own.shape[1]
    picked = share.flatten(1).gather(1, best.indices.unsqueeze(1))
    return best.values, i.unsqueeze(1), j.unsqueeze(1), picked


def _term(weight: Tensor, own: Tensor) -> Tensor:
    """Return one word's part of twice the divergence: p ln(2p/(p + a)) + a ln(2a/(p + a))."""
    total = weight + own
    return total * LOG2 + torch.xlogy(weight, weight) + torch.xlogy(own, own) - torch.xlogy(total, total)


def search_adversary(evidence: Evidence, config: SearchConfig | None = None) -> Adversary:
    """Search for such weights by gradient descent, as Jain and Wallace did; their own stand where nothing was found."""
    config = config or SearchConfig()
    logits = 3 * draw_words(evidence, config.candidates, config.seed)
    logits.requires_grad_()
    optimizer = torch.optim.Adam([logits], lr=config.learning_rate, amsgrad=True)
    for _ in range(config.steps):
        optimizer.zero_grad()
        torch.autograd.backward(_search_loss(evidence, _weights(evidence, logits), config))
        optimizer.step()
    return _best(evidence, _weights(evidence, logits.detach()), config.tolerance)


def _weights(evidence: Evidence, logits: Tensor) -> Tensor:
    return logits.masked_fill(~evidence.attended, torch.finfo(logits.dtype).min).softmax(-1)


def _search_loss(evidence: Evidence, weights: Tensor, config: SearchConfig) -> Tensor:
    """Reward divergence from the own weights and between the candidates, and charge for a changed answer."""
    apart = jensen_shannon(weights, evidence.attention.expand_as(weights)).sum()
    beyond = (_change(evidence, weights) - config.target).clamp_min(0).sum()
    count = len(weights)
    if count == 1:
        return -apart + config.penalty * beyond
    first, second = torch.triu_indices(count, count, 1, device=weights.device)
    between = jensen_shannon(weights[first], weights[second]).mean(0).sum()
    return -apart + config.penalty * beyond - between


def _best(evidence: Evidence, weights: Tensor, tolerance: float) -> Adversary:
    own = evidence.attention
    weights = torch.cat([weights, own.unsqueeze(0)])
    found = jensen_shannon(weights, own.expand_as(weights))
    found = torch.where(_change(evidence, weights) <= tolerance, found, -1.0)
    found[-1] = 0
    best = found.max(0)
    chosen = weights.gather(0, best.indices.view(1, -1, 1).expand(1, *own.shape)).squeeze(0)
    return Adversary(chosen, best.values, _change(evidence, chosen))


def _change(evidence: Evidence, weights: Tensor) -> Tensor:
    """Return how far the probability moves under other weights."""
    return (evidence.weigh(weights).sigmoid() - evidence.probability).abs()
