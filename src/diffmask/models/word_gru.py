"""A small sentiment classifier that reads words from left to right, for which exact search is within reach."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from .adapter import Adapter
from .sites import Site


@dataclass(frozen=True)
class Classified:
    """What the classifier answers, and its loss where labels were given."""

    logits: Float[Tensor, "batch label"]
    loss: Float[Tensor, ""] | None = None


class WordGRU(nn.Module):
    """Embed words, read them with one GRU, and classify its last state."""

    def __init__(self, words: int, width: int = 64, hidden: int = 64, labels: int = 5, dropout: float = 0.3) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width, padding_idx=0)
        self.gru = nn.GRU(width, hidden, batch_first=True)
        self.answer = nn.Linear(hidden, labels)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        words: Int[Tensor, "batch unit"],
        length: Int[Tensor, " batch"],
        labels: Int[Tensor, " batch"] | None = None,
    ) -> Classified:
        states, _ = self.gru(self.dropout(self.embedding(words)))
        # A forward GRU has seen nothing of the padding at the last real step, so no packing is needed.
        last = states[torch.arange(len(words), device=words.device), length - 1]
        logits = self.answer(self.dropout(last))
        return Classified(logits, None if labels is None else F.cross_entropy(logits, labels))


def adapt_word_gru(model: WordGRU) -> Adapter:
    """Name the one place where words can be replaced: their embeddings."""
    return Adapter(model, [Site("word embedding", model.embedding)])
