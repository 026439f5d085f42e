"""Train the word model of the erasure study on the phrases of the sentiment treebank, once per seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..models.word_gru import WordGRU
from ..tasks.sst import Sentence
from ..tasks.words import Vocabulary
from .fine_tune import FineTuneConfig, fine_tune
from .trained import device


@dataclass(frozen=True)
class WordModel:
    """A trained classifier of words, its vocabulary, and the share of dev sentences it gets right."""

    model: WordGRU
    vocabulary: Vocabulary
    accuracy: float


def train_word_model(train: Sequence[Sentence], dev: Sequence[Sentence], seed: int, epochs: int) -> WordModel:
    """Train on every phrase of the training sentences, and keep the epoch that is best on the dev sentences."""
    vocabulary = Vocabulary(sentence.text for sentence in train)
    phrases = sorted({phrase for sentence in train for phrase in sentence.phrases})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = WordGRU(len(vocabulary))
    how = FineTuneConfig(epochs, min(256, len(phrases)), 4e-3, weight_decay=0.0, seed=seed)
    lengths = [len(text.split()) for text, _ in phrases]

    def encode(rows: list[int]) -> dict[str, Tensor]:
        texts, labels = zip(*(phrases[row] for row in rows), strict=True)
        return {**vocabulary.encode(texts), "labels": torch.tensor(labels)}

    found = fine_tune(
        *(model, encode, len(phrases), how),
        lengths=lengths,
        evaluate=lambda: measure_accuracy(model, vocabulary, dev),
        device=device(),
    )
    return WordModel(model, vocabulary, found.score or 0.0)


@torch.no_grad()
def measure_accuracy(model: WordGRU, vocabulary: Vocabulary, sentences: Sequence[Sentence]) -> float:
    """Return the share of sentences that a model in evaluation mode labels right."""
    where = model.answer.weight.device
    inputs = {name: value.to(where) for name, value in vocabulary.encode([s.text for s in sentences]).items()}
    labels = torch.tensor([sentence.label for sentence in sentences], device=where)
    return float((model(**inputs).logits.argmax(1) == labels).float().mean())
