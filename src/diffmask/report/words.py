"""Units of an explanation put together: pieces to words, and units to a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import torch

from ..errors import DiffMaskError
from ..explanation import Explanation
from .plain import split_units

if TYPE_CHECKING:
    from pandas import DataFrame


def words(explanation: Explanation) -> Explanation:
    """Merge the pieces of each word: kept if any piece is, and scored by its highest piece.

    The highest, not the sum or the chance that any piece is kept: scores are log probabilities, and by the highest a
    word's score is above one half exactly where one of its pieces is kept, at every depth.
    """
    texts = split_units(explanation.units)
    groups = group_pieces([joined for _, joined in texts])
    kept = torch.stack([explanation.kept[group].any() for group in groups])
    whole = all(explanation.kept[group].all() for group, keep in zip(groups, kept, strict=True) if keep)
    merged = replace(
        explanation,
        units=tuple("".join(texts[unit][0] for unit in group) for group in groups),
        scores=torch.stack([explanation.scores[:, group].amax(1) for group in groups], dim=1),
        kept=kept,
        verification=explanation.verification if whole else None,
        certified=explanation.certified and whole,
        info={**_info(explanation, whole), **_order(explanation, groups)},
    )
    return merged if len(groups) < len(texts) else explanation


def group_pieces(joined: Sequence[bool]) -> list[list[int]]:
    """Return the places of the pieces of each word.

    >>> group_pieces([False, False, True])
    [[0], [1, 2]]
    """
    groups: list[list[int]] = []
    for place, goes_on in enumerate(joined):
        if goes_on and groups:
            groups[-1].append(place)
        else:
            groups.append([place])
    return groups


def _info(explanation: Explanation, whole: bool) -> dict[str, object]:
    if whole or explanation.verification is None:
        return dict(explanation.info)
    return {**explanation.info, "verified_pieces": asdict(explanation.verification)}


def _order(explanation: Explanation, groups: Sequence[Sequence[int]]) -> dict[str, object]:
    """Score words in the order that a set was cut from, if it was not the probe's own."""
    order = explanation.info.get("order")
    return {} if order is None else {"order": [max(order[piece] for piece in group) for group in groups]}


def dataframe(explanation: Explanation) -> DataFrame:
    """Return one row per unit, with a column for the probability of being kept at each depth."""
    try:
        from pandas import DataFrame
    except ImportError as error:
        raise DiffMaskError("a data frame needs pandas: pip install pandas") from error
    first = {"unit": list(explanation.units), "kept": explanation.kept.tolist()}
    chances = explanation.scores.exp().tolist()
    return DataFrame({**first, **dict(zip(explanation.depths, chances, strict=True))})
