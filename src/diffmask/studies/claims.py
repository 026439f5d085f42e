"""Does a paper's claim hold: every cell of its table votes, by its seeds, and the votes are counted."""

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
    known = [value for value in differences if value is not None and math.isfinite(value)]
    if len(known) < 2:
        return 0
    error = 2 * stdev(known) / math.sqrt(len(known))
    return (mean(known) > error) - (mean(known) < -error)


def judge(cells: Mapping[str, Sequence[float]], **more: Any) -> dict[str, Any]:
    """Count the votes of cells, each given as the differences that should be above 0, one per seed.

    A claim holds if three cells in four are for it, fails if half or more are against it, and is undecided otherwise.
    Cells that were not run have no vote.
    """
    cells = {name: differences for name, differences in cells.items() if len(differences)}
    votes = {name: vote(differences) for name, differences in cells.items()}
    count, found, against = len(votes), sum(v > 0 for v in votes.values()), sum(v < 0 for v in votes.values())
    if not count:
        verdict = "undecided"
    elif found >= MOST * count:
        verdict = "holds"
    else:
        verdict = "fails" if against >= count / 2 else "undecided"
    means = {name: average(differences) for name, differences in cells.items()}
    return {"verdict": verdict, "cells": count, "for": found, "against": against, "differences": means, **more}


def average(values: Sequence[float | None]) -> float | None:
    """Return the mean of what is known, or None."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    return mean(known) if known else None


def spread(values: Sequence[float | None]) -> float | None:
    """Return the standard deviation over seeds of what is known, or None for fewer than two."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    return stdev(known) if len(known) > 1 else None
