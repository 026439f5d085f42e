"""Which part of a picture a processor shows to the model: many cut out the middle, by settings of many names.

So it is measured. A picture that grows from black to white, beside a black and a white one, tells of every pixel that
comes out where it was, whatever it was normalised by.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isclose
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import DataError
from ..pictures import BASES

PROBES = ((600, 300), (320, 960))  # width and height: a wide and a taller picture tell one rule from another
EXACT = 0.02  # of a share: pixels have 256 shades, and small images few pixels

Process = Callable[[Any], Tensor]  # a picture becomes (channel, height, width)
Pair = tuple[float, float]  # of width and height


def part_seen(process: Process) -> tuple[str, float, float] | None:
    """Return of what the part is a share, and which across and down; None if it is all, or follows no rule."""
    try:
        parts = [(_extent(process, size, 0), _extent(process, size, 1)) for size in PROBES]
    except Exception:  # whatever a processor says to these; it says more when an image is explained
        return None
    for name, base in BASES.items():
        one, other = (_ratio(part, base(*size)) for part, size in zip(parts, PROBES, strict=True))
        if all(isclose(a, b, rel_tol=EXACT) for a, b in zip(one, other, strict=True)):
            across, down = (_round(a, b) for a, b in zip(one, other, strict=True))
            return None if (name, across, down) == ("sides", 1, 1) else (name, across, down)
    return None


def _ratio(part: Pair, whole: Pair) -> Pair:
    return part[0] / whole[0], part[1] / whole[1]


def _round(one: float, other: float) -> float:
    mean = (one + other) / 2
    return 1.0 if abs(mean - 1) < EXACT else round(mean, 3)


def _extent(process: Process, size: tuple[int, int], axis: int) -> float:
    """Return how many pixels of a picture's width (axis 0) or height (1) the model sees."""
    line = np.linspace(0, 255, size[axis]).round().astype(np.uint8)
    ramp = np.tile(line, (size[1], 1)) if axis == 0 else np.tile(line[:, None], (1, size[0]))
    grown, black, white = (process(picture) for picture in (ramp, np.zeros_like(ramp), np.full_like(ramp, 255)))
    if grown.dim() != 3:
        raise DataError(f"a processor made {tuple(grown.shape)} of an image, and (channel, height, width) is needed")
    places = ((grown - black) / (white - black)).double().nanmean((0, 1 if axis == 0 else 2))  # nan: padding
    return _slope(places) * len(places) * (size[axis] - 1)


def _slope(places: Tensor) -> float:
    """Return the slope of a line through all but the ends, which are blended with what is beyond them."""
    apart = 1 + len(places) // 16
    steps = torch.arange(len(places), dtype=torch.double)[apart:-apart]
    steps, places = (values[places[apart:-apart].isfinite()] for values in (steps, places[apart:-apart]))
    if len(steps) < 2:
        return float("nan")
    steps = steps - steps.mean()
    return float((steps * places).sum() / steps.square().sum())
