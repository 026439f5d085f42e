"""Take from a newsgroup post what gives its group away: the header, the signature and what it quotes.

The rules are those by which scikit-learn's copy of the data is usually stripped.
"""

from __future__ import annotations

import re

QUOTED = re.compile(r"^(?:>|\||In article|Quoted from)|writes in|(?:writes|wrote|says|said):", re.MULTILINE)


def strip_post(text: str) -> str:
    """Return what the author of a post wrote in it."""
    return without_quotes(without_signature(without_header(text)))


def without_header(text: str) -> str:
    """Drop everything up to the first empty line."""
    return text.partition("\n\n")[2]


def without_signature(text: str) -> str:
    """Drop everything after the last line that is empty or only dashes, unless that is the first."""
    lines = text.strip().split("\n")
    borders = [number for number, line in enumerate(lines) if not line.strip().strip("-")]
    return "\n".join(lines[: borders[-1]]) if borders and borders[-1] > 0 else text


def without_quotes(text: str) -> str:
    """Drop the lines that quote somebody, or say who is quoted."""
    return "\n".join(line for line in text.split("\n") if not QUOTED.search(line))
