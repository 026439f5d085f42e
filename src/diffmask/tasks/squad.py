"""SQuAD (Rajpurkar et al. 2016): questions about a passage whose answers are spans of it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DataError


@dataclass(frozen=True)
class Answered:
    """A question, its passage, and where in the passage annotators saw the answer: (start, end) in characters."""

    article: str
    question: str
    passage: str
    spans: tuple[tuple[int, int], ...]

    @property
    def pair(self) -> tuple[str, str]:
        return self.question, self.passage


def read_squad(path: Path) -> list[Answered]:
    """Read SQuAD JSON, gzipped or not, and keep the questions with at least one certain span.

    Where the file says how often an answer occurs in its passage, a span is certain only if that is once.
    """
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        articles = json.loads(content)["data"]
        return [found for article in articles for found in _questions(article) if found.spans]
    except FileNotFoundError as error:
        raise DataError(f"no file {path}: give the directory of the data with --data or DIFFMASK_DATA") from error
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is not SQuAD JSON ({error}): it holds 'data', a list of articles") from error


def _questions(article: Mapping[str, Any]) -> Iterator[Answered]:
    for paragraph in article["paragraphs"]:
        passage = paragraph["context"]
        for asked in paragraph["qas"]:
            yield Answered(article["title"], asked["question"].strip(), passage, tuple(_spans(passage, asked)))


def _spans(passage: str, asked: Mapping[str, Any]) -> list[tuple[int, int]]:
    certain = {
        (answer["answer_start"], answer["answer_start"] + len(answer["text"]))
        for answer in asked["answers"]
        if answer.get("occurrences", 1) == 1 and passage[answer["answer_start"] :].startswith(answer["text"])
    }
    return sorted(_trimmed(passage, start, end) for start, end in certain if passage[start:end].strip())


def _trimmed(passage: str, start: int, end: int) -> tuple[int, int]:
    """Leave out spaces at either end: no token stands there."""
    piece = passage[start:end]
    return start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())


def split_by_article(questions: list[Answered], held_out: int) -> tuple[list[Answered], list[Answered]]:
    """Put the questions of the last `held_out` articles, in order of title, aside: no passage is on both sides."""
    titles = sorted({question.article for question in questions})
    if held_out >= len(titles):
        raise DataError(f"{held_out} of {len(titles)} articles held out leave none to train on: hold out fewer")
    aside = set(titles[len(titles) - held_out :])
    return [q for q in questions if q.article not in aside], [q for q in questions if q.article in aside]
