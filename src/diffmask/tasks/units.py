"""What a unit of text is: a token, a word, a sentence, or a segment the user gave; and which of them are never gated.

Every kind comes down to spans of characters; a token belongs to the span in which it begins.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from ..errors import DataError

Unit = Literal["token", "word", "sentence", "segment"]
Text = str | tuple[str, str] | list[str]  # one text, a pair such as question and passage, or the segments of a text

WORD, LETTER = re.compile(r"\S+"), re.compile(r"\S")
MARKS = "Ġ▁"  # how byte-level and sentence-piece tokenizers write the space before a word
JOINED = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"  # Chinese and Japanese, which put no space between words
EDGE = rf"(?:(?<!\w)|(?!\w)|(?<=[{JOINED}])|(?=[{JOINED}]))"  # anywhere but inside a word
CLOSING = "\"')\\]」』”’）"
# What follows tells whether a mark ends a sentence: white space, or after a Chinese or Japanese one anything that does
# not close a quotation.
SENTENCE = re.compile(rf"\S.*?(?:[.!?。！？]+[{CLOSING}]*(?=\s|$)|[。！？]+(?![。！？{CLOSING}])|\n|$)", re.DOTALL)


class Kept(str):
    """A segment that is always kept, such as an instruction or a question.

    >>> ["The code is 7.", Kept("What is the code?")][1]
    'What is the code?'
    """


class Template(Kept):
    """The words of a chat template: always kept, and joined to what stands beside them without a space."""


@dataclass(frozen=True)
class Span:
    """Some characters of one part of a text, and whether they may be dropped."""

    part: int
    start: int
    end: int
    gated: bool = True


def parts_of(text: Text) -> list[str]:
    """Return what the tokenizer is given: one text, or two; segments are joined by spaces."""
    if isinstance(text, str):
        return [text]
    if isinstance(text, tuple):
        return list(text)
    return ["".join(gap + piece for gap, piece in zip(_gaps(text), text, strict=True))]


def _gaps(pieces: Sequence[str]) -> list[str]:
    """Return what stands before each segment."""
    return ["", *("" if Template in (type(a), type(b)) else " " for a, b in pairwise(pieces))]


def spans_of(text: Text, unit: Unit) -> list[Span]:
    """Return the spans of characters that make up the sentences or segments of a text."""
    if unit == "sentence":
        return [
            Span(number, found.start(), found.end())
            for number, part in enumerate(parts_of(text))
            for found in SENTENCE.finditer(part)
        ]
    if not isinstance(text, list):
        raise DataError(
            f"unit 'segment' takes each text as a list of segments, got {type(text).__name__}: write "
            '["first segment", "second segment"] in Python, and Kept("…") for one that must stay; the command line '
            "gives whole texts, for the units token, word and sentence"
        )
    return list(_segments(text))


def _segments(pieces: Sequence[str]) -> Iterator[Span]:
    start = 0
    for gap, piece in zip(_gaps(pieces), pieces, strict=True):
        start += len(gap)
        yield Span(0, start, start + len(piece), gated=not isinstance(piece, Kept))
        start += len(piece)


def special_ids(tokenizer: Any) -> frozenset[int]:
    """Return the tokens that say how a text is laid out, whoever writes them.

    Unknown and masked words stand for something and are none, unless their token also begins or ends a text.
    """
    words, ends = _named(tokenizer, "unk", "mask"), _named(tokenizer, "bos", "eos", "cls", "sep")
    added = getattr(tokenizer, "added_tokens_decoder", {}).items()  # a chat template's are named only here
    found = {*getattr(tokenizer, "all_special_ids", ()), *(number for number, token in added if token.special)}
    return frozenset(found - words | ends)


def ends_texts(tokenizer: Any) -> bool:
    """Say whether a tokenizer writes the end of a text behind each itself."""
    found = tokenizer("a", return_special_tokens_mask=True)
    return bool(found["special_tokens_mask"][-1]) and found["input_ids"][-1] == tokenizer.eos_token_id


def _named(tokenizer: Any, *duties: str) -> set[int]:
    numbers = (getattr(tokenizer, f"{duty}_token_id", None) for duty in duties)
    return {number for number in numbers if number is not None}


@dataclass(frozen=True)
class Grouping:
    """Which unit each position belongs to (−1: to none), and what the units are called."""

    place: list[int]
    names: list[str]


def group(text: Text, unit: Unit, encoding: Any, tokens: Sequence[str], special: Sequence[int]) -> Grouping:
    """Group the positions of an encoded text into units; special tokens are units of their own here."""
    if unit == "token":
        return Grouping(list(range(len(tokens))), list(tokens))
    if unit == "word":
        spans, keys = [], _words(text, encoding)
    else:
        spans = spans_of(text, unit)
        keys = places(text, spans, encoding)
    keys = [("special", i) if special[i] else key for i, key in enumerate(keys)]
    return _number(text, keys, encoding, tokens, spans)


def _words(text: Text, encoding: Any) -> list[Any]:
    """Tell the words of a text apart: those of the tokenizer, and what white space parts (Llama 2 parts nothing)."""
    parts = parts_of(text)
    starts = [[word.start() for word in WORD.finditer(part)] for part in parts]
    found = zip(encoding.sequence_ids, encoding.word_ids, encoding.offsets, strict=True)
    return [
        None if part is None else (part, word, bisect(starts[part], _first_letter(parts[part], offset[0])))
        for part, word, offset in found
    ]


def places(text: Text, spans: Sequence[Span], encoding: Any) -> list[int]:
    """Return the span in which each token begins, −1 for none."""
    texts, tokens = parts_of(text), zip(encoding.sequence_ids, encoding.offsets, strict=True)
    return [
        -1 if part is None else _find(spans, part, _first_letter(texts[part], offset[0])) for part, offset in tokens
    ]


def _first_letter(text: str, start: int) -> int:
    """Return where a token's own characters begin: many carry the space before them, or are nothing else."""
    found = LETTER.search(text, start)
    return found.start() if found else start


def written_between(text: Text, encoding: Any, start: int, end: int) -> str | None:
    """Return what is written from one token to another, if both stand in one part of a text and in this order."""
    first, last = (encoding.sequence_ids[place] for place in (start, end))
    if first is None or first != last or end < start:
        return None
    return parts_of(text)[first][encoding.offsets[start][0] : encoding.offsets[end][1]].strip()


def _find(spans: Sequence[Span], part: int, place: int) -> int:
    inside = (i for i, span in enumerate(spans) if span.part == part and span.start <= place < span.end)
    return next(inside, -1)


def always_kept(text: Text, encoding: Any) -> set[int]:
    """Return the positions of segments that are always kept, whatever the unit is."""
    if not isinstance(text, list) or not any(isinstance(piece, Kept) for piece in text):
        return set()
    spans = list(_segments(text))
    found = enumerate(places(text, spans, encoding))
    return {position for position, span in found if span >= 0 and not spans[span].gated}


def held(text: Text, words: Collection[str], encoding: Any, groups: Grouping) -> set[int]:
    """Return the units that are one of some words, or hold one, however many tokens it is cut into."""
    if not words:
        return set()
    if encoding is None:  # only what the tokens are called is known
        names = (name.lstrip(MARKS).removeprefix("##") for name in groups.names)
        return {number for number, name in enumerate(names) if name.lower() in words}
    named = {number for number, name in enumerate(groups.names) if name.lower() in words}
    return named | {groups.place[i] for i in _written(text, words, encoding)}


def _written(text: Text, words: Collection[str], encoding: Any) -> set[int]:
    """Return the positions at which one of some words is written: "not" is, but not in "nothing"."""
    anyone = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    whole = re.compile(f"{EDGE}(?:{anyone}){EDGE}", re.IGNORECASE)
    spans = [[found.span() for found in whole.finditer(part)] for part in parts_of(text)]
    ends = [[end for _, end in part] for part in spans]

    def touches(part: int, start: int, end: int) -> bool:
        place = bisect(ends[part], start)  # the first span that ends behind where the token begins
        return place < len(ends[part]) and spans[part][place][0] < end

    tokens = enumerate(zip(encoding.sequence_ids, encoding.offsets, strict=True))
    return {i for i, (part, offset) in tokens if part is not None and touches(part, *offset)}


def _number(text: Text, keys: Sequence[Any], encoding: Any, tokens: Sequence[str], spans: Sequence[Span]) -> Grouping:
    """Give each key a number in order of appearance, and name it by the characters it covers."""
    numbers: dict[Any, int] = {}
    place, pieces = [], dict[int, list[int]]()
    for position, key in enumerate(keys):
        kept = key == -1 or (spans and isinstance(key, int) and not spans[key].gated)
        number = -1 if kept else numbers.setdefault(key, len(numbers))
        place.append(number)
        if number >= 0:
            pieces.setdefault(number, []).append(position)
    return Grouping(place, [_name(text, encoding, tokens, positions) for positions in pieces.values()])


def _name(text: Text, encoding: Any, tokens: Sequence[str], positions: Sequence[int]) -> str:
    start, end = encoding.offsets[positions[0]][0], encoding.offsets[positions[-1]][1]
    part = encoding.sequence_ids[positions[0]]
    return parts_of(text)[part][start:end].strip() if part is not None else tokens[positions[0]]
