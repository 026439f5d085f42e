"""Sentences as words: a vocabulary counted on the training sentences, and the task of a classifier that reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import torch
from jaxtyping import Int
from torch import Tensor

from ..errors import DataError
from ..types import Batch, Categorical, Prediction
from .task import Task

PADDING, UNKNOWN = 0, 1


START, END, MASK = "<start>", "<end>", "<mask>"


class Vocabulary:
    """Numbers for lower-case words; those seen fewer than `least` times share one.

    >>> Vocabulary(["a gem", "A bore"], least=1).numbers("a new gem")
    [2, 1, 3]

    `special` words such as `START` get the first numbers and are never read out of a text. `count` says what `least`
    counts: how often a word was seen, or in how many texts. Where a removal looks for a tokenizer's special tokens, it
    finds them under the names Hugging Face gives them.
    """

    pad_token_id, unk_token_id = PADDING, UNKNOWN

    def __init__(
        self,
        texts: Iterable[str],
        least: int = 2,
        special: Sequence[str] = (),
        count: Literal["words", "texts"] = "words",
    ) -> None:
        read = (text.lower().split() for text in texts)
        counts = Counter(word for words in read for word in (words if count == "words" else dict.fromkeys(words)))
        known = [word for word, seen in counts.most_common() if seen >= least and word not in special]
        self.special = {word: place for place, word in enumerate(special, UNKNOWN + 1)}
        self.number = {word: place for place, word in enumerate(known, self.first_word)}

    @property
    def first_word(self) -> int:
        """The number of the first word that is not special; all after it are words, the most frequent first."""
        return UNKNOWN + 1 + len(self.special)

    @property
    def bos_token_id(self) -> int | None:
        return self.special.get(START)

    @property
    def eos_token_id(self) -> int | None:
        return self.special.get(END)

    @property
    def mask_token_id(self) -> int | None:
        return self.special.get(MASK)

    @property
    def all_special_ids(self) -> list[int]:
        return [PADDING, UNKNOWN, *self.special.values()]

    def convert_ids_to_tokens(self, number: int) -> str:
        """Return the word of a number."""
        return ["<padding>", "<unknown>", *self.special, *self.number][number]

    def __len__(self) -> int:
        return len(self.number) + self.first_word

    def numbers(self, text: str) -> list[int]:
        """Return the number of each word of a text."""
        return [self.number.get(word, UNKNOWN) for word in text.lower().split()]

    def encode(self, texts: Sequence[str]) -> dict[str, Int[Tensor, " text *word"]]:
        """Return what a word model takes: numbers, padded on the right, and how many there are."""
        rows = [self.numbers(text) for text in texts]
        if not all(rows):
            raise DataError(f"text {rows.index([])} has no words: leave empty texts out")
        longest = max(map(len, rows))
        words = torch.tensor([row + [PADDING] * (longest - len(row)) for row in rows])
        return {"words": words, "length": torch.tensor([len(row) for row in rows])}


class WordTask(Task):
    """Texts for a word model that answers with `logits`; every word is a unit."""

    def __init__(self, vocabulary: Vocabulary, train: Sequence[str], validation: Sequence[str]) -> None:
        self.vocabulary, self.train, self.validation = vocabulary, train, validation

    def collate(self, examples: Sequence[Any]) -> Batch:
        inputs = self.vocabulary.encode(list(examples))
        valid = torch.arange(inputs["words"].shape[1]) < inputs["length"].unsqueeze(1)
        return Batch(inputs, valid)

    def read(self, output: Any, batch: Batch) -> Prediction:
        return {"label": Categorical(output.logits)}

    def lengths(self, examples: Sequence[Any]) -> Sequence[int]:
        return [len(text.split()) for text in examples]

    def units(self, examples: Sequence[Any]) -> list[list[str]]:
        return [text.split() for text in examples]
