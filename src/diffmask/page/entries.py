"""The data of a page: every explanation as one plain entry, whatever it was read from.

An entry holds `text`, `units` (as shown) with `joined` (goes on from the unit before), `depths`, `depth`, `scores`
(probabilities of being kept, depth by unit), `kept`, `prediction`, `verification`, `certified`, `grid` and `picture` of
an image, `rivals` (method, scores, kept, divergence) and `about` (settings and versions). Where a server measured every
depth, `at_depths` holds `depth`, `kept`, `verification` and `certified` of each.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import DataError
from ..explanation import Explanation
from ..report.plain import record, split_units
from .picture import check_picture, picture_uri

Entry = dict[str, Any]
NEEDED = ("units", "depths", "depth", "scores", "kept")
APART = ("grid", "seen", "labels", "versions")  # of what an explanation tells of itself, no settings
DIGITS = 4  # of a probability on a page: a thousand explanations stay a few megabytes
# What turns text around, moves the cursor or has no shape. Joiners stay: letters and emoji are built with them.
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069\ud800-\udfff]"
)


def entry(source: Explanation | Mapping[str, Any], text: str | None = None, picture: Any = None) -> Entry:
    """Turn an explanation, or what `record` wrote of one, into an entry of a page."""
    found = record(source, text or "") if isinstance(source, Explanation) else source
    _check(found)
    units, joined = zip(*split_units(found["units"]), strict=True)
    seen = (found.get("info") or {}).get("seen")
    uri = picture_uri(picture, seen) if picture is not None else check_picture(found.get("picture"))
    return {
        "text": visible(found.get("text") or ""),
        "units": [visible(unit) or "␣" for unit in units],
        "joined": list(joined),
        "depths": [visible(name) for name in found["depths"]],
        "depth": found["depth"],
        "scores": [[_rounded(score) for score in row] for row in found["scores"]],
        "kept": [bool(keep) for keep in found["kept"]],
        "prediction": found.get("prediction"),
        "verification": found.get("verification"),
        "certified": bool(found.get("certified")),
        "grid": _grid(found, len(units)),
        "picture": uri,
        "rivals": [_rival(rival, len(units)) for rival in found.get("rivals") or ()],
        "about": _about(found),
        **({"at_depths": found["at_depths"]} if found.get("at_depths") else {}),
    }


def visible(text: str) -> str:
    """Name what is invisible or turns text around, so that a reader sees what the model was given.

    >>> visible("a\\u202eb 👩\\u200d🚀")
    'a‹U+202E›b 👩\u200d🚀'
    """
    return HIDDEN.sub(lambda letter: f"‹U+{ord(letter[0]):04X}›", text)


def _check(found: Mapping[str, Any]) -> None:
    """Refuse what is no explanation, so that a page never shows half of one."""
    missing = [key for key in NEEDED if key not in found]
    if missing:
        raise DataError(f"this is not a saved explanation, it has no '{missing[0]}': make it with diffmask explain")
    units, depths = len(found["units"]), len(found["depths"])
    lengths = {len(row) for row in found["scores"]}
    if not units or lengths != {units} or len(found["kept"]) != units or len(found["scores"]) != depths:
        raise DataError(
            f"an explanation of {units} units at {depths} depths needs as many scores, got {len(found['scores'])} rows "
            f"of {sorted(lengths)} and {len(found['kept'])} kept: make it again with diffmask explain"
        )
    if not 0 <= found["depth"] < depths:
        raise DataError(f"an explanation at depth {found['depth']} has only {depths} depths: make it again")


def _rounded(score: float) -> float:
    return round(float(score), DIGITS)


def _grid(found: Mapping[str, Any], units: int) -> list[int] | None:
    """Return rows and columns of an image, unless a unit is something other than a patch."""
    grid = found.get("grid") or (found.get("info") or {}).get("grid")
    return [int(side) for side in grid] if grid and math.prod(grid) == units else None


def _rival(rival: Mapping[str, Any], units: int) -> dict[str, Any]:
    if len(rival["scores"]) != units:
        raise DataError(f"{rival['method']} has {len(rival['scores'])} scores for {units} units: make it again")
    scores = [float(score) if math.isfinite(score) else 0.0 for score in rival["scores"]]
    top = max(map(abs, scores)) or 1.0
    kept = rival.get("kept")
    return {
        "method": visible(str(rival["method"])),
        "scores": [float(f"{score:.4g}") for score in scores],
        "shares": [_rounded(score / top) for score in scores],
        "kept": None if kept is None else [bool(keep) for keep in kept],
        "divergence": rival.get("divergence"),
        "same_prediction": rival.get("same_prediction"),
    }


def _about(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings an explanation was made with, and the versions of what made it."""
    info = {key: value for key, value in (found.get("info") or {}).items() if key not in APART}
    settings = {key: found[key] for key in ("kind", "fingerprint") if found.get(key) is not None} | info
    return {"settings": settings, "versions": (found.get("info") or {}).get("versions") or {}}


def shared(entries: Sequence[Entry]) -> tuple[list[Entry], list[Any]]:
    """Take out what many entries have in common: each `about` becomes a place in the list that is returned."""
    known: list[Any] = []
    slim = []
    for each in entries:
        if each["about"] not in known:
            known.append(each["about"])
        slim.append({**each, "about": known.index(each["about"])})
    return slim, known
