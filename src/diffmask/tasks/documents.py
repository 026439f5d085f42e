"""Labelled documents made of words, for classifiers that read a vocabulary: their splits, and the task of reading them.

A document is one string of words between spaces, already cleaned; `clean.py` makes such strings.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Int
from torch import Tensor

from ..errors import DataError
from ..types import Batch, Bernoulli, Categorical, Prediction
from .task import Task
from .words import END, MASK, PADDING, START, Vocabulary


@dataclass(frozen=True)
class Document:
    """A text of words between spaces, and its class."""

    text: str
    label: int

    @property
    def length(self) -> int:
        return len(self.text.split())


@dataclass(frozen=True)
class Corpus:
    """The splits of a data set, cleaned; `note` says how they came about, for whoever reports on them."""

    name: str
    train: tuple[Document, ...]
    dev: tuple[Document, ...]
    test: tuple[Document, ...]
    labels: tuple[str, ...]
    least: int = 1  # documents a word must be in to be known
    note: str = ""

    def within(self, shortest: int, longest: int | None = None) -> Corpus:
        """Keep the documents that have at least `shortest` and at most `longest` words, in every split."""
        train, dev, test = (documents_within(split, shortest, longest) for split in (self.train, self.dev, self.test))
        return replace(self, train=train, dev=dev, test=test)

    def vocabulary(self) -> Vocabulary:
        """Count the words of the training documents; start, end and mask get numbers of their own."""
        texts = (document.text for document in self.train)
        return Vocabulary(texts, self.least, (START, END, MASK), count="texts")


class DocumentTask(Task):
    """Documents for a classifier that answers with `logits`: one for yes or no, or one per class. Words are the units.

    The start and end of a document are read, too, if the vocabulary knows them, and are no units. Words after the first
    `longest` are cut off. A document without words cannot be explained and is refused; one of one word can.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        train: Sequence[str],
        validation: Sequence[str],
        *,
        longest: int | None = None,
        side: Literal["right", "left"] = "right",
        labels: Sequence[str] | None = None,
    ) -> None:
        self.vocabulary = self.tokenizer = vocabulary
        self.train, self.validation = train, validation
        self.longest, self.side, self.labels = longest, side, labels

    def collate(self, examples: Sequence[Any]) -> Batch:
        rows = [self.numbers(text) for text in examples]
        inputs = padded(rows, self.side)
        ends = [number for number in (self.vocabulary.bos_token_id, self.vocabulary.eos_token_id) if number is not None]
        valid = inputs["attention_mask"].bool() & ~torch.isin(inputs["input_ids"], torch.tensor(ends).long())
        return Batch(inputs, valid)

    def numbers(self, text: str) -> list[int]:
        """Return the numbers a document is read as, its start and end included."""
        if not isinstance(text, str):
            raise DataError(f"a document is a string of words between spaces, got {type(text).__name__}: {text!r:.60}")
        words = self.vocabulary.numbers(text)[: self.longest]
        start, end = self.vocabulary.bos_token_id, self.vocabulary.eos_token_id
        return [*([] if start is None else [start]), *words, *([] if end is None else [end])]

    def read(self, output: Any, batch: Batch) -> Prediction:
        logits = output.logits
        return {"label": Bernoulli(logits.squeeze(-1)) if logits.shape[-1] == 1 else Categorical(logits)}

    def lengths(self, examples: Sequence[Any]) -> Sequence[int]:
        return [len(text.split()) for text in examples]

    def units(self, examples: Sequence[Any]) -> list[list[str]]:
        return [text.split()[: self.longest] for text in examples]


def padded(
    rows: Sequence[Sequence[int]], side: Literal["right", "left"] = "right"
) -> dict[str, Int[Tensor, "document position"]]:
    """Stack rows of numbers and say which positions are real."""
    if not rows:
        raise DataError("there are no documents to make a batch of: give at least one")
    longest = max(map(len, rows))
    numbers, real = torch.full((len(rows), longest), PADDING), torch.zeros(len(rows), longest, dtype=torch.long)
    for row, words in enumerate(rows):
        start = longest - len(words) if side == "left" else 0
        numbers[row, start : start + len(words)] = torch.tensor(words, dtype=torch.long)
        real[row, start : start + len(words)] = 1
    return {"input_ids": numbers, "attention_mask": real}


def documents_within(
    documents: Iterable[Document], shortest: int = 1, longest: int | None = None
) -> tuple[Document, ...]:
    """Keep the documents whose number of words lies between two bounds, both included."""
    return tuple(d for d in documents if shortest <= d.length and (longest is None or d.length <= longest))


def check_classes(documents: Sequence[Document], split: str) -> None:
    """Refuse a split without documents, or with one class only: nothing can be learned or measured on it."""
    counts = Counter(document.label for document in documents)
    if len(counts) < 2:
        found = f"only label {next(iter(counts))}" if counts else "nothing"
        raise DataError(
            f"the {split} documents have {found} ({len(documents)} documents), and a classifier needs two classes: "
            "check the label column and what the data was filtered by"
        )


def check_words(documents: Sequence[Document], split: str) -> None:
    """Refuse a document without words: nothing in it could be attended to."""
    for number, document in enumerate(documents, 1):
        if not document.text.split():
            raise DataError(
                f"{split} document {number} of {len(documents)} has no words, and a classifier would learn its label "
                "from nothing: leave such documents out, e.g. with documents_within(documents, 1)"
            )


def split_documents(
    documents: Sequence[Document], share: float, seed: int
) -> tuple[tuple[Document, ...], tuple[Document, ...]]:
    """Hold a share of each class out, drawn with the seed; both parts keep the order of the documents."""
    if not 0 < share < 1:
        raise DataError(f"the share to hold out must lie between 0 and 1, got {share}")
    dice, held = random.Random(f"split {seed}"), set[int]()
    for label in sorted({document.label for document in documents}):
        rows = [row for row, document in enumerate(documents) if document.label == label]
        held.update(dice.sample(rows, round(share * len(rows))))
    kept = tuple(document for row, document in enumerate(documents) if row not in held)
    return kept, tuple(document for row, document in enumerate(documents) if row in held)
