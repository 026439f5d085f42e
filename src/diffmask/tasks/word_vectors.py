"""Word vectors from a corpus alone, where pretrained ones cannot be had: shifted counts of neighbours, factorised.

    PMI(w, c) = log P(w, c) / (P(w)·P'(c))    P'(c) ∝ count(c)^0.75    vectors = U·√S of max(PMI, 0) = U S Vᵀ

Levy, Goldberg and Dagan (2015). Words seen with nobody get 0. A result that used these vectors has to say so: they know
only what the corpus says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import DataError, SettingError
from .words import PADDING, UNKNOWN, Vocabulary

SIZE = 0.3  # root mean square of an entry, about that of GloVe's: hidden states, which tying compares, lie in (−1, 1)


@dataclass(frozen=True)
class VectorConfig:
    """How word vectors are made."""

    width: Annotated[int, "numbers per word"] = 300
    window: Annotated[int, "words to each side that count as neighbours"] = 5
    smoothing: Annotated[float, "power that makes rare neighbours less surprising"] = 0.75
    rounds: Annotated[int, "of the randomised factorisation; more are closer to the exact one"] = 4
    seed: Annotated[int, "of the factorisation and of the special words"] = 0

    def __post_init__(self) -> None:
        for name in ("width", "window"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} of word vectors must be at least 1, got {getattr(self, name)}")
        if self.rounds < 0 or not 0 < self.smoothing <= 1:
            raise SettingError(
                f"word vectors take rounds of 0 or more and a smoothing in (0, 1], got {self.rounds} and "
                f"{self.smoothing}"
            )


def train_vectors(
    texts: Iterable[str], vocabulary: Vocabulary, config: VectorConfig | None = None
) -> Float[Tensor, "word width"]:
    """Return a vector per word of the vocabulary: 0 for padding, drawn at random for unknown and special words."""
    config = config or VectorConfig()
    rows = [[number for number in vocabulary.numbers(text) if number != UNKNOWN] for text in texts]
    table = positive_information(neighbours(rows, len(vocabulary), config.window), config.smoothing)
    generator = torch.Generator().manual_seed(config.seed)
    found = torch.randn(len(vocabulary), config.width, generator=generator) * SIZE
    found[PADDING] = 0
    found[vocabulary.first_word :] = _factorise(table, config)[vocabulary.first_word :]
    return found


def neighbours(rows: Sequence[Sequence[int]], words: int, window: int) -> Tensor:
    """Count how often two words stand within a window of each other, as a sparse table."""
    numbers, text = _flat(rows)
    codes = []
    for distance in range(1, window + 1):
        same = text[distance:] == text[:-distance]
        codes.append((numbers[:-distance] * words + numbers[distance:])[same])
    pairs, counts = np.unique(torch.cat(codes).numpy(), return_counts=True)
    if not len(pairs):
        raise DataError("no two known words stand next to each other in these texts: word vectors need a corpus")
    places = torch.from_numpy(np.stack([pairs // words, pairs % words]))
    places = torch.cat([places, places.flip(0)], dim=1)  # a neighbour on either side
    return torch.sparse_coo_tensor(
        places, torch.from_numpy(counts).repeat(2).double(), (words, words), check_invariants=False
    ).coalesce()


def positive_information(counts: Tensor, smoothing: float) -> Tensor:
    """Return how much more often than by chance two words meet, in nats; what is less often is 0."""
    word = torch.zeros(counts.shape[0], dtype=torch.double)
    word = word.index_add(0, counts.indices()[0], counts.values())
    context = word**smoothing / (word**smoothing).sum()
    first, second = counts.indices()
    values = (counts.values() / (word[first] * context[second])).log()  # count/total over word/total · context
    kept = values > 0
    return torch.sparse_coo_tensor(
        counts.indices()[:, kept], values[kept], counts.shape, check_invariants=False
    ).coalesce()


def _flat(rows: Sequence[Sequence[int]]) -> tuple[Int[Tensor, " place"], Int[Tensor, " place"]]:
    """Stand all texts one after the other, and say which text each word is of."""
    lengths = torch.tensor([len(row) for row in rows])
    return torch.tensor([number for row in rows for number in row]), torch.arange(len(rows)).repeat_interleave(lengths)


def _factorise(table: Tensor, config: VectorConfig) -> Float[Tensor, "word width"]:
    """Return the best factor of a few columns; where the corpus has fewer words than columns, the rest are 0."""
    rank = min(config.width, *table.shape)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        left, sizes, _ = torch.svd_lowrank(table.float(), q=min(rank + 10, *table.shape), niter=config.rounds)
    # The sign of a column is arbitrary; fixed so that machines agree.
    signs = left.gather(0, left.abs().argmax(0, keepdim=True)).sign()
    vectors = (left * signs * sizes.sqrt())[:, :rank]
    used = vectors.abs().sum(1) > 0
    vectors = vectors * SIZE / vectors[used].square().mean().sqrt().clamp_min(1e-12)
    return torch.nn.functional.pad(vectors, (0, config.width - rank))
