"""What other attention does to a classifier's quality, and what single words would answer (Tutek and Šnajder 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from .attacks import permuted_attention, uniform_attention
from .evidence import Evidence
from .quality import Quality, measure_quality

WEIGHTS = 1 << 22  # permuted at once


@dataclass(frozen=True)
class Robustness:
    """The quality with the classifier's own, with uniform and with permuted attention, the last averaged over draws."""

    own: Quality
    uniform: Quality
    permuted: Quality
    draws: int

    def drop(self, which: str, figure: str = "f1") -> float:
        """Return how much is lost: positive where the modified attention does worse."""
        return float(getattr(self.own, figure) - getattr(getattr(self, which), figure))


@dataclass(frozen=True)
class WordProbability:
    """The probability of the answer with all weight on one word, over documents answered right.

    `macro` averages documents, `micro` words; both are NaN if nothing was answered right.
    """

    macro: float
    micro: float
    documents: int


def measure_robustness(evidence: Evidence, draws: int = 20, seed: int = 0) -> Robustness:
    """Measure the quality under the three kinds of attention; AUC as well, as F1 = 0 only says that all became no."""
    qualities = [_quality(logits, evidence) for logits in permuted_margins(evidence, draws, seed).unbind(0)]
    uniform = evidence.weigh(uniform_attention(evidence))
    return Robustness(_quality(evidence.margin, evidence), _quality(uniform, evidence), _mean(qualities), draws)


def permuted_margins(evidence: Evidence, draws: int, seed: int = 0) -> Float[Tensor, "draw document"]:
    """Return the margins under permuted attention, some documents at a time."""
    size = max(1, WEIGHTS // (draws * evidence.attended.shape[1]))
    parts = [evidence.part(slice(start, start + size)) for start in range(0, len(evidence), size)]
    return torch.cat([part.weigh(permuted_attention(part, draws, seed)) for part in parts], dim=1)


def permutation_changes(evidence: Evidence, draws: int = 100, seed: int = 0) -> Float[Tensor, " document"]:
    """Return the median change of the probability over permutations, per document (Jain and Wallace 2019)."""
    changes = (permuted_margins(evidence, draws, seed).sigmoid() - evidence.probability).abs()
    return changes.quantile(0.5, dim=0)  # of an even number the mean of both middles, unlike torch.median


def word_probability(evidence: Evidence) -> WordProbability:
    """Return how sure single words are of the answer; lower is better where the classifier is as good."""
    right = evidence.decided == evidence.labels
    yes = evidence.says.sigmoid()
    each = torch.where(evidence.decided.unsqueeze(1) == 1, yes, 1 - yes)
    words = evidence.attended[right]
    each = torch.where(words, each[right], 0)
    macro = (each.sum(1) / words.sum(1).clamp_min(1)).mean()
    return WordProbability(float(macro), float(each.sum() / words.sum()), int(right.sum()))


def _quality(margin: Tensor, evidence: Evidence) -> Quality:
    return measure_quality(margin.unsqueeze(1), evidence.labels)


def _mean(found: list[Quality]) -> Quality:
    def mean(name: str) -> float:
        return sum(getattr(quality, name) for quality in found) / len(found)

    return Quality(mean("accuracy"), mean("f1"), mean("auc"))
