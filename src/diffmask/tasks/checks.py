"""What a task on texts refuses: settings, tokenizers and texts that cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import DataError
from ..registry import unknown
from .units import Text


def check_choice(what: str, got: str, known: Sequence[str]) -> None:
    """Refuse what is none of a few words."""
    if got not in known:
        raise DataError(unknown(what, got, known))


def check_keep(keep: Any) -> None:
    """Refuse a single word, which would be taken for its letters, and what is no word."""
    if isinstance(keep, str) or not all(word.strip() for word in keep):
        raise DataError(f"keep takes a list of words, got {keep!r}: write keep=['not'], or leave it out")


def check_tokenizer(tokenizer: Any, unit: str) -> None:
    """Refuse a tokenizer that makes no batches, or does not find the units."""
    name = type(tokenizer).__name__
    if getattr(tokenizer, "pad_token", None) is None:
        raise DataError(
            f"{name} has no padding token, so texts of different lengths make no batch: "
            "set one, e.g. tokenizer.pad_token = tokenizer.eos_token"
        )
    if unit != "token" and not tokenizer.is_fast:
        raise DataError(f"{name} does not say where its tokens stand in the text, which unit '{unit}' needs: use token")


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
