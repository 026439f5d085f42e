"""Clean texts as Jain and Wallace (2019) did: lower-case words and marks between spaces, numbers as one word.

They cut texts with spaCy's English rules. `cut` follows those rules for what is common and needs no package;
`spacy_cut` is the real thing for those who have it. Sizes of data sets differ by a few documents between the two.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ..errors import DataError

Cut = Callable[[str], list[str]]

NUMBER = "qqq"
PIECE = re.compile(
    r"https?://\S+|\S+@\S+\.\w+"  # addresses stay whole
    r"|(?:[A-Za-z]\.){2,}"  # U.S., e.g.
    r"|\w+(?=n't\b)|n't\b"  # do n't
    r"|'(?:s|m|d|re|ve|ll)\b"  # it 's
    r"|\d+(?:[.,:]\d+)+|\w+|\.{2,}|-{2,}|[^\w\s]",
    re.IGNORECASE,
)
TOGETHER = re.compile(r"\b(can)(not)\b|\b(gon|wan|got)(na|ta)\b", re.IGNORECASE)
# Keras cuts at these and drops them; the apostrophe stays.
KERAS = str.maketrans(dict.fromkeys('!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n', " "))


def cut(text: str) -> list[str]:
    """Cut a text into words and marks.

    >>> cut("It's 3.5 stars; I cannot say I didn't laugh.")
    ['It', "'s", '3.5', 'stars', ';', 'I', 'can', 'not', 'say', 'I', 'did', "n't", 'laugh', '.']
    """
    apart = TOGETHER.sub(lambda found: " ".join(part for part in found.groups() if part), text)
    return PIECE.findall(apart)


def spacy_cut() -> Cut:
    """Return spaCy's way of cutting English texts; it needs the package and no download."""
    try:
        import spacy
    except ImportError as error:
        raise DataError("cutting texts as spaCy does needs it: pip install spacy, or leave out cut=…") from error
    rules = spacy.blank("en").tokenizer
    return lambda text: [token.text for token in rules(text)]


def clean(text: str, cut: Cut = cut, numbers: bool = True) -> str:
    """Return the lower-case words and marks of a text between spaces; with `numbers`, one word for all with a digit.

    >>> clean("Up 12%, to $4.50")
    'up qqq % , to $ qqq'
    """
    words = (word.strip().lower() for word in cut(" ".join(text.split())))
    return " ".join(NUMBER if numbers and any(c.isdigit() for c in word) else word for word in words if word)


def clean_sentence(text: str, cut: Cut = cut) -> str:
    """Clean a sentence of the sentiment treebank: no brackets and no marks; numbers stay."""
    bare = text.replace("-LRB-", " ").replace("-RRB-", " ")
    return clean(re.sub(r"\W", " ", bare), cut, numbers=False)


def clean_post(text: str, cut: Cut = cut) -> str:
    """Clean a newsgroup post: of a run of marks and spaces only the last one stays, and a space is nothing."""
    return " ".join(re.sub(r"\W*(\W)", r" \1 ", clean(text, cut)).split())


def clean_review(text: str) -> str:
    """Clean a film review as Keras does: lower-case, marks are spaces.

    >>> clean_review("Don't miss it!<br />Really.")
    "don't miss it br really"
    """
    return " ".join(text.lower().translate(KERAS).split())
