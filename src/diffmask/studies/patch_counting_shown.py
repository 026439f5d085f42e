"""A few grids of the patch-counting study with the mask of every method, as its picture shows them (paper, Fig. 2).

They are the grids with one to eight red patches of the first seed. Ours starts at 90 % kept, the published recipe at
the paper's own β.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jaxtyping import Bool
from torch import Tensor

from ..tasks.patch_counting import COLOURS, SIDE, UNITS, PatchCounting

DRAWN = slice(1, UNITS)  # of the test grids, whose counts go round from 0 to 9


def as_lines(keep: Bool[Tensor, "image unit"]) -> list[str]:
    """Write the masks of the drawn grids, a line each: 1 for a patch that is kept."""
    return ["".join(str(int(kept)) for kept in row) for row in keep[DRAWN].tolist()]


def shown_grids(task: PatchCounting, masks: Sequence[Mapping[str, list[str]]]) -> dict[str, Any]:
    """Put the masks of all methods beside the grids they belong to."""
    colours = task.colours[task.test.start : task.test.stop][DRAWN]
    return {
        "side": SIDE,
        "palette": ["#" + "".join("ff" if part else "00" for part in colour) for colour in COLOURS.tolist()],
        "grids": ["".join(map(str, row)) for row in colours.tolist()],
        "keep": {name: lines for some in masks for name, lines in some.items()},
    }
