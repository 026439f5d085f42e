"""Counting red patches, where the right explanation is known (Nalmpantis et al. 2023, §3.2 and App. C).

An image is a grid of nine patches of one colour each, six colours in all, and the answer is how many are red. With one
baseline for all images, the least that keeps the count is either exactly the red patches (a baseline that counts as
none) or exactly the others (one that counts as red): which of the two is settled once, not image by image.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..types import Batch, Categorical, Prediction
from .task import Task

SIDE, PATCH = 3, 4  # patches in a row, and pixels; the paper has 16, and one colour fills a patch anyway
UNITS = SIDE * SIDE
# All corners of the colour cube but black and white; red is the first.
COLOURS = torch.tensor([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1]])
RED = 0


class PatchCounting(Task):
    """Grids drawn from a seed: the count is even between 0 and 9; `test` has as many of each."""

    def __init__(self, seed: int = 0, train: int = 6000, validation: int = 500, test: int = 1000) -> None:
        self.train, self.validation = range(train), range(train, train + validation)
        self.test = range(train + validation, train + validation + test)
        draw = torch.Generator().manual_seed(seed)
        counts = torch.randint(0, UNITS + 1, (train + validation,), generator=draw)
        self.colours = draw_colours(torch.cat([counts, torch.arange(test) % (UNITS + 1)]), draw)

    def collate(self, examples: Sequence[Any]) -> Batch:
        return as_batch(self.colours[torch.as_tensor(list(examples))])

    def read(self, output: Any, batch: Batch) -> Prediction:
        return {"red patches": Categorical(output.logits)}

    def red(self, examples: Sequence[Any]) -> Bool[Tensor, "example unit"]:
        """Mark the red patches."""
        return self.colours[torch.as_tensor(list(examples))] == RED


def as_batch(colours: Int[Tensor, "image unit"]) -> Batch:
    """Make a batch of images of these colours."""
    return Batch({"pixel_values": paint(colours)}, torch.ones(colours.shape, dtype=torch.bool))


def draw_colours(counts: Int[Tensor, " image"], draw: torch.Generator) -> Int[Tensor, "image unit"]:
    """Put as many red patches as asked for at random places, and other colours elsewhere."""
    place = torch.rand(len(counts), UNITS, generator=draw).argsort(1).argsort(1)
    return torch.where(place < counts.unsqueeze(1), RED, draw_others((len(counts), UNITS), draw))


def draw_others(shape: tuple[int, int], draw: torch.Generator) -> Int[Tensor, "image unit"]:
    """Draw colours that are not red."""
    return torch.randint(1, len(COLOURS), shape, generator=draw)


def paint(colours: Int[Tensor, "image unit"]) -> Float[Tensor, "image 3 height width"]:
    """Fill each patch with its colour; pixels are −1 or 1, as the paper's normalisation leaves them.

    >>> paint(torch.tensor([[0] * 9])).shape
    torch.Size([1, 3, 12, 12])
    """
    grids = COLOURS[colours].view(-1, SIDE, SIDE, 3).permute(0, 3, 1, 2).float() * 2 - 1
    return grids.repeat_interleave(PATCH, 2).repeat_interleave(PATCH, 3)
