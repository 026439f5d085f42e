"""What a task on texts refuses: settings, tokenizers and texts that cannot be used."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

from ..errors import DataError, SettingError
from ..registry import unknown
from .units import Kept, Text


def check_choice(what: str, got: str, known: Sequence[str]) -> None:
    """Refuse what is none of a few words."""
    if got not in known:
        raise DataError(unknown(what, str(got), known))


def check_keep(keep: Any) -> None:
    """Refuse a single word, which would be taken for its letters, and what is no word."""
    listed = isinstance(keep, Collection) and not isinstance(keep, str)
    if not listed or not all(isinstance(word, str) and word.strip() for word in keep):
        raise DataError(f"keep takes a list of words, got {keep!r}: write keep=['not'], or leave it out")


COUNTED = {"around": "0 or a number of units on each side of a gate's own", "max_length": "a number of tokens"}


def check_count(what: str, got: Any, least: float = -math.inf) -> None:
    """Refuse what is no whole number, or too small a one."""
    if not isinstance(got, Integral) or isinstance(got, bool) or got < least:
        raise SettingError(f"{what} must be {COUNTED[what]}, got {got!r}")


def names_of(labels: Any) -> list[str] | None:
    """Return the names of labels in their order, refusing what are none."""
    if labels is None:
        return None
    listed = isinstance(labels, Iterable) and not isinstance(labels, str | Mapping)
    names: list[Any] = list(labels) if listed else [None]
    if not all(isinstance(name, str) for name in names):
        hint = "list(id2label.values())" if isinstance(labels, Mapping) else "e.g. ['negative', 'positive']"
        raise DataError(f"labels takes the names of the model's labels, in its order, got {labels!r:.60}: pass {hint}")
    return names


def longest_padded(length: int, pad_to: int) -> int:
    """Return the longest length that is padded to a multiple without going beyond this one."""
    if not isinstance(pad_to, int) or not 1 <= pad_to <= length:
        raise SettingError(
            f"pad_to must be 1 or a number of tokens that batches are padded to, at most the {length} that a text may "
            f"have, got {pad_to!r}"
        )
    return length - length % pad_to


def check_tokenizer(tokenizer: Any, unit: str, gate: str) -> None:
    """Refuse a tokenizer that makes no batches, or does not find what is gated."""
    name = type(tokenizer).__name__
    if not hasattr(tokenizer, "convert_ids_to_tokens"):
        raise DataError(
            f"a task on texts takes a tokenizer, got {name}: load the one that was saved with the model, "
            "AutoTokenizer.from_pretrained(…)"
        )
    if getattr(tokenizer, "pad_token", None) is None:
        raise DataError(
            f"{name} has no padding token, so texts of different lengths make no batch: "
            "set one, e.g. tokenizer.pad_token = tokenizer.eos_token"
        )
    for needs, plain in ((f"unit '{unit}'", unit == "token"), (f"gate '{gate}'", gate == "all")):
        if not plain:
            check_fast(tokenizer, needs)


def check_fast(tokenizer: Any, needs: str) -> None:
    """Refuse a tokenizer that does not say where its tokens stand in a text."""
    if not tokenizer.is_fast:
        raise DataError(
            f"{type(tokenizer).__name__} does not say where its tokens stand in the text, which {needs} needs: load a "
            "fast tokenizer, or gate tokens of the whole text"
        )


def check_length(tokenizer: Any, most: int, pair: bool) -> None:
    """Refuse a length that special tokens fill."""
    special = tokenizer.num_special_tokens_to_add(pair=pair)
    if most <= special:
        raise SettingError(
            f"max_length must be at least {special + 1}, got {most}: {type(tokenizer).__name__} adds {special} special "
            "tokens: take more, or None for as many as the model takes"
        )


def check_text(text: Text) -> None:
    """Refuse what is no text, is empty, or cannot be encoded."""
    parts = [text] if isinstance(text, str) else text
    fits = isinstance(parts, list) or (isinstance(parts, tuple) and len(parts) == 2)
    if not fits or not all(isinstance(part, str) for part in parts):
        raise DataError(f"a text must be a string, a pair of strings or a list of segments, got {text!r}")
    if not any(part.strip() for part in parts):
        raise DataError("a text is empty: there is nothing to explain in it; filter such texts out of the data")
    try:
        "".join(parts).encode()
    except UnicodeEncodeError:
        raise DataError("a text holds half a character, which no tokenizer takes: decode its bytes as UTF-8") from None
    if not isinstance(text, list) and any(isinstance(part, Kept) for part in parts):
        raise DataError(
            f"Kept marks a segment of a list, got {text!r}: write [Kept(…), …], or gate one part of a pair with gate"
        )


def check_segments(text: Text) -> None:
    """Refuse an empty segment that would be a unit, which no token could belong to."""
    if isinstance(text, list) and not all(piece or isinstance(piece, Kept) for piece in text):
        number = next(number for number, piece in enumerate(text) if not piece and not isinstance(piece, Kept))
        raise DataError(f"segment {number} of a text is empty, and would be no unit: leave it out")


def check_part(text: Text, gate: str) -> None:
    """Refuse a text of which nothing could be dropped, because the part to gate is not there."""
    if gate == "all":
        return
    if not isinstance(text, tuple):
        raise DataError(f"gate '{gate}' names a part of a pair, got {text!r:.50}: give a pair (first, second)")
    if not text[gate == "second"].strip():
        raise DataError(
            f"the {gate} part of a pair is empty, and gate '{gate}' drops nothing else: leave such examples out, or "
            "take gate 'all'"
        )
