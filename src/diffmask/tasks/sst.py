"""The Stanford Sentiment Treebank (Socher et al. 2013): sentences whose every phrase carries a human label.

Labels run from 0, very negative, over 2, neutral, to 4, very positive.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..errors import DataError

SPLITS = ("train", "dev", "test")
NEUTRAL = 2
BRACKETS = {"-LRB-": "(", "-RRB-": ")"}
PART = re.compile(r"\(|\)|[^\s()]+")


@dataclass(frozen=True)
class Sentence:
    """A sentence with the labels of its words and phrases; the last phrase is the sentence itself."""

    words: tuple[str, ...]
    label: int
    word_labels: tuple[int, ...]
    phrases: tuple[tuple[str, int], ...]

    @property
    def text(self) -> str:
        return " ".join(self.words)


def read_sst(directory: Path, split: str) -> list[Sentence]:
    """Read a split of the treebank: one tree a line in `train.txt`, `dev.txt` or `test.txt`."""
    path = directory / f"{split}.txt"
    if split not in SPLITS:
        raise DataError(f"no split named '{split}' in the sentiment treebank. Known: {', '.join(SPLITS)}")
    if not path.is_file():
        raise DataError(
            f"no file {path}: give the directory that holds the sentiment treebank's train.txt, dev.txt and test.txt "
            "with --data or DIFFMASK_DATA"
        )
    lines = path.read_text(encoding="utf-8").split("\n")
    return [_read_line(line, path, number) for number, line in enumerate(lines, 1) if line.strip()]


def binary(label: int) -> int:
    """Return 1 for a positive label and 0 for a negative one, which a neutral label is not."""
    if label == NEUTRAL:
        raise DataError("a neutral label is neither positive nor negative: leave such phrases out")
    return int(label > NEUTRAL)


def binary_examples(labelled: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return the texts that are not neutral, each with 0 for negative or 1 for positive."""
    return [(text, binary(label)) for text, label in labelled if label != NEUTRAL]


def binary_sentences(sentences: Iterable[Sentence]) -> list[tuple[str, int]]:
    """Return the texts of the sentences that are not neutral as a whole, each with its binary label."""
    return binary_examples((sentence.text, sentence.label) for sentence in sentences)


def _read_line(line: str, path: Path, number: int) -> Sentence:
    try:
        return parse_tree(line)
    except DataError as error:
        raise DataError(f"{path}, line {number}: {error}") from None


def parse_tree(line: str) -> Sentence:
    """Read one tree such as `(3 (2 a) (4 gem))`."""
    words: list[str] = []
    word_labels: list[int] = []
    phrases: list[tuple[str, int]] = []
    open_nodes: list[tuple[int, int]] = []  # each with its label and the number of words before it
    parts = iter(PART.findall(line))
    for part in parts:
        if phrases and not open_nodes:
            raise DataError(f"'{part}' comes after the end of the tree: put one tree on a line")
        if part == "(":
            open_nodes.append((_label(next(parts, "nothing")), len(words)))
        elif not open_nodes:
            raise DataError(f"a tree begins with a parenthesis, such as (3 (2 a) (4 gem)), got '{part}'")
        elif part == ")":
            label, start = open_nodes.pop()
            if start == len(words):
                raise DataError("a node of the tree has no word: each holds a word or further nodes")
            phrases.append((" ".join(words[start:]), label))
        else:
            words.append(_word(part))
            word_labels.append(open_nodes[-1][0])
    if open_nodes:
        raise DataError(f"parentheses left open: {len(open_nodes)}; the line may be cut off")
    if not phrases:
        raise DataError("there is no whole tree such as (3 (2 a) (4 gem))")
    return Sentence(tuple(words), phrases[-1][1], tuple(word_labels), tuple(phrases))


def _label(part: str) -> int:
    if part not in ("0", "1", "2", "3", "4"):
        raise DataError(f"a node of the tree begins with a label from 0 to 4, got '{part}'")
    return int(part)


def _word(part: str) -> str:
    return BRACKETS.get(part, part.replace("\\", ""))
