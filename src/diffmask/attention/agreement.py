"""How alike attention and importance are, with what ties alone would give beside it.

Sparse weights tie at 0, and importance of hidden states shares those zeros. Random values on a shared support of k of
n words already give E τ-b = (n − k) / (n − k + (k − 1)/2); against dense importance, ties push τ-b down instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..objective.ranking import kendall_rows

Words = Float[Tensor, "document word"]
Which = Bool[Tensor, "document word"]


@dataclass(frozen=True)
class Agreement:
    """τ-b of attention with importance, per document; NaN where one of them ranks nothing.

    Over all words; over those that have weight; what a random order on a shared support would give; and of the scores
    behind the weights, which do not tie.
    """

    every: Float[Tensor, " document"]
    support: Float[Tensor, " document"]
    null: Float[Tensor, " document"]
    untied: Float[Tensor, " document"]


@dataclass(frozen=True)
class Tally:
    """The mean and spread of what is defined, over how many documents, and how many are not defined."""

    mean: float
    sd: float
    count: int
    undefined: int


def agree(attention: Words, scores: Words, importance: Words, attended: Which) -> Agreement:
    """Compare attention with an importance, document by document."""
    support = attended & (attention > 0)
    return Agreement(
        kendall_rows(attention, importance, attended),
        kendall_rows(attention, importance, support),
        shared_support_null(support.sum(1), attended.sum(1)),
        kendall_rows(scores, importance, attended),
    )


def shared_support_null(
    support: Int[Tensor, " document"], words: Int[Tensor, " document"]
) -> Float[Tensor, " document"]:
    """Return the τ-b to expect of random values that share their zeros; NaN for a single word."""
    zeros, pairs = (words - support).double(), (support.double() - 1) / 2
    return zeros / (zeros + pairs)  # 0 / 0 for one word


def truncate(attention: Words, attended: Which, counts: Int[Tensor, " document"]) -> Words:
    """Keep the highest weights of each document and set the others to 0, as a sparser projection might.

    Weights that are equal keep the order of the words.
    """
    order = torch.where(attended, attention, -1).argsort(dim=1, descending=True, stable=True)
    place = order.argsort(dim=1)
    return torch.where(attended & (place < counts.unsqueeze(1)), attention, 0)


def normalised_entropy(shares: Words, attended: Which) -> Float[Tensor, " document"]:
    """Return −Σ p ln p / ln n of each document, in [0, 1]; NaN for one word, or where nothing matters."""
    shares = torch.where(attended, shares, 0).double()
    count = attended.sum(1).double()
    found = -torch.xlogy(shares, shares).sum(1) / count.log()
    return found.where((count > 1) & (shares.sum(1) > 0), torch.nan)


def tally(values: Float[Tensor, " document"]) -> Tally:
    """Average what is defined, and count what is not."""
    known = values[~values.isnan()].double()
    if not len(known):
        return Tally(math.nan, math.nan, 0, len(values))
    return Tally(float(known.mean()), float(known.std(correction=0)), len(known), len(values) - len(known))
