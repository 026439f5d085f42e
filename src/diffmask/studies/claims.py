"""Does a paper's claim hold: every cell of its table votes, by its seeds, and the votes are counted.

A claim that says several things has parts, and holds only if all of them do. What stands `beside` a claim does not
vote: it is the same question without what could answer it by itself, such as ties, shared zeros or an estimator's bias.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

MOST = 0.75  # of the cells must be for a claim


def vote(differences: Sequence[float]) -> int:
    """Say whether a difference over seeds is above 0 (1), below (−1), or not told from it by two standard errors (0).

    >>> vote([0.2, 0.3, 0.25]), vote([-0.1, 0.1, 0.0]), vote([0.5])
    (1, 0, 0)
    """
    known = _known(differences)
    if not _votes(known):
        return 0
    error = 2 * stdev(known) / math.sqrt(len(known))
    return (mean(known) > error) - (mean(known) < -error)


def judge(cells: Mapping[str, Sequence[float]], or_equal: bool = False, **more: Any) -> dict[str, Any]:
    """Count the votes of cells, each given as the differences that should be above 0, one per seed.

    A claim holds if three cells in four are for it, fails if half or more are against it, and is undecided otherwise.
    Cells of fewer than two seeds have no vote. With `or_equal` a difference not told from 0 is for the claim.
    """
    cells = {name: differences for name, differences in cells.items() if len(differences)}
    votes = {name: vote(differences) or int(or_equal) for name, differences in cells.items() if _votes(differences)}
    count, found, against = len(votes), sum(v > 0 for v in votes.values()), sum(v < 0 for v in votes.values())
    if not count:
        verdict = "undecided"
    elif found >= MOST * count:
        verdict = "holds"
    else:
        verdict = "fails" if against >= count / 2 else "undecided"
    means = {name: average(differences) for name, differences in cells.items()}
    return {"verdict": verdict, "cells": count, "for": found, "against": against, "differences": means, **more}


def judge_all(parts: Mapping[str, Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    """Judge a claim that says several things: it holds if every part does, and fails if one does.

    >>> judge_all({"a": judge({"x": [1.0, 1.1]}), "b": judge({"x": [-1.0, -1.1]})})["verdict"]
    'fails'
    """
    verdicts = {part["verdict"] for part in parts.values()}
    verdict = "fails" if "fails" in verdicts else "holds" if verdicts == {"holds"} else "undecided"
    return {"verdict": verdict, "parts": dict(parts), **more}


def average(values: Sequence[float | None]) -> float | None:
    """Return the mean of what is known, or None."""
    known = _known(values)
    return mean(known) if known else None


def spread(values: Sequence[float | None]) -> float | None:
    """Return the standard deviation over seeds of what is known, or None for fewer than two."""
    known = _known(values)
    return stdev(known) if len(known) > 1 else None


def _votes(differences: Sequence[float]) -> bool:
    return len(_known(differences)) > 1


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]
