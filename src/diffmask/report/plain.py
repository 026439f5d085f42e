"""An explanation in plain words and plain data: what the terminal, the pictures and JSON have in common."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..explanation import Explanation, Labels, Verification, place_of
from .byte_level import from_bytes, in_bytes

LOG_HALF = math.log(0.5)
TOLD = ("kind", "fingerprint", "labels")  # what a record says elsewhere: labels by the names of the decisions
SPACES = ("Ġ", "▁")  # how byte-level and sentence-piece tokenizers write the space before a word


@dataclass(frozen=True)
class Piece:
    """A unit as it is shown: safe text, and whether it goes on from the unit before it."""

    text: str
    joined: bool


def pieces(units: Sequence[str]) -> list[Piece]:
    """Return the units as they are shown, with the pieces of one word joined.

    >>> [(piece.text, piece.joined) for piece in pieces(["enjoy", "##able"])]
    [('enjoy', False), ('able', True)]
    """
    return [Piece(printable(text), joined) for text, joined in split_units(units)]


def split_units(units: Sequence[str]) -> list[tuple[str, bool]]:
    """Take off what tokenizers write for spaces and joints: the bare text of each unit, and whether it is joined.

    >>> split_units(["Ġen", "joy", "Ġit"])
    [('en', False), ('joy', True), ('it', False)]
    >>> split_units(["Ġna", "Ã¯ve"])
    [('na', False), ('ïve', True)]
    """
    spaced = any(unit.startswith(SPACES) for unit in units)
    split = [_split(unit, first=number == 0, spaced=spaced) for number, unit in enumerate(units)]
    texts = [text for text, _ in split]
    read = from_bytes(texts) if in_bytes(units) else texts
    return [(text, joined) for text, (_, joined) in zip(read, split, strict=True)]


def _split(unit: str, first: bool, spaced: bool) -> tuple[str, bool]:
    if spaced:
        special = unit.startswith("<") and unit.endswith(">")  # <s> and its like stand alone
        return unit.lstrip("".join(SPACES)), not (first or special or unit.startswith(SPACES))
    inner = unit.startswith("##") and len(unit) > 2
    return unit[2:] if inner else unit, inner and not first


def printable(text: str) -> str:
    """Show what would move the cursor or turn the text around as �, so that no text can draw on the terminal."""
    return "".join(letter if letter.isprintable() else "�" for letter in " ".join(text.split())) or "␣"


def short_names(depths: Sequence[str]) -> list[str]:
    """Leave out the first parts that all names share, such as the name of the model, but no word before a number."""
    parts = [name.split(".") for name in depths]
    while len(parts) > 1 and len({part[0] for part in parts}) == 1 and all(_can_shorten(part) for part in parts):
        parts = [part[1:] for part in parts]
    return [".".join(part) for part in parts]


def _can_shorten(part: Sequence[str]) -> bool:
    return len(part) > 1 and not part[1].isdecimal()


def kept_at(explanation: Explanation, depth: int) -> list[bool]:
    """Say which units are kept at a depth; at the chosen one, those that were verified."""
    if depth == explanation.depth:
        return [bool(keep) for keep in explanation.kept.tolist()]
    return [score > LOG_HALF for score in explanation.scores[depth].tolist()]


def grid_of(explanation: Explanation) -> tuple[int, int] | None:
    """Return the rows and columns of an image whose patches are the units; None where units are something else."""
    grid = explanation.info.get("grid")
    if not grid or math.prod(grid) != len(explanation.units):
        return None
    return int(grid[0]), int(grid[1])


def answer(decided: Mapping[str, Any], labels: Labels | None) -> str:
    """Say what was decided, by the names of the labels where they are known.

    >>> answer({"label": 1}, ["negative", "positive"]), answer({"start": 3, "end": 5}, None)
    ('positive', 'start 3, end 5')
    >>> answer({"labels": [True, False, True]}, ["fast", "dull", "funny"])
    'fast, funny'
    >>> answer({"start": 3, "end": 5}, {"3:5": "Denver Broncos"})
    'Denver Broncos (start 3, end 5)'
    """
    if labels is not None and len(decided) == 1:
        names = _names(next(iter(decided.values())), labels)
        if names and None not in names:
            return ", ".join(printable(str(name)) for name in names)
    plain = ", ".join(f"{printable(name)} {_short(value)}" for name, value in decided.items()) or "a value"
    said = labels.get(place_of(decided)) if isinstance(labels, Mapping) and len(decided) > 1 else None
    return plain if said is None else f"{printable(said)} ({plain})"


def _names(value: Any, labels: Labels) -> list[str | None]:
    """Name an index, each of several, or of as many answers as there are labels those that are yes."""
    indices = value if isinstance(value, list) else [value]
    if any(isinstance(index, bool) for index in indices):
        return _true(indices, list(labels)) if len(indices) == len(labels) else []
    names = labels if isinstance(labels, Mapping) else {str(index): name for index, name in enumerate(labels)}
    return [names.get(str(index)) for index in indices]


def _true(flags: Sequence[bool], labels: Sequence[str]) -> list[str | None]:
    held: list[str | None] = [label for label, flag in zip(labels, flags, strict=True) if flag]
    return held or [f"none of {', '.join(labels)}"]


def _short(value: Any) -> Any:
    """Write numbers with four figures."""
    if isinstance(value, list):
        return _short(value[0]) if len(value) == 1 else [_short(item) for item in value]
    return f"{value:.4g}" if isinstance(value, float) else value


def record(explanation: Explanation, text: str) -> dict[str, Any]:
    """Return an explanation as plain data, ready for a line of JSON."""
    checked, labels = explanation.verification, explanation.info.get("labels")
    return {
        "text": text,
        "units": list(explanation.units),
        "depths": list(explanation.depths),
        "depth": explanation.depth,
        "scores": [[round(score, 6) for score in row] for row in explanation.scores.exp().tolist()],
        "kept": explanation.kept.tolist(),
        "prediction": None if checked is None else answer(checked.original, labels),
        "verification": None if checked is None else _checked(checked, labels),
        "certified": explanation.certified,
        "cut": explanation.info.get("cut", 0),
        "kind": explanation.info.get("kind"),
        "fingerprint": explanation.info.get("fingerprint"),
        "info": {name: value for name, value in explanation.info.items() if name not in TOLD},
    }


def _checked(checked: Verification, labels: Labels | None) -> dict[str, Any]:
    return {
        "divergence": checked.divergence if math.isfinite(checked.divergence) else None,  # JSON knows no infinity
        "margin": checked.margin,
        "measure": checked.measure,
        "within_margin": checked.within_margin,
        "same_prediction": checked.same_prediction,
        "original": dict(checked.original),
        "masked": dict(checked.masked),
        "masked_prediction": answer(checked.masked, labels),
    }
