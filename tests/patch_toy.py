"""A model of patches whose answer is known: red patches are evidence for, blue ones against, green ones say nothing."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from diffmask.models.adapter import Adapter
from diffmask.models.adapting import adapt
from diffmask.tasks.images import ImageClassification
from diffmask.types import Batch, Bernoulli, Prediction

SIDE, ROWS, COLUMNS = 4, 2, 3
POSITION = 0.01


class Gather(nn.Module):
    """Adds to the first position what the others hold, a little at a time."""

    def forward(self, state: Tensor) -> Tensor:
        return torch.cat([state[:, :1] + state[:, 1:].sum(1, keepdim=True) / 2, state[:, 1:]], 1)


class PatchEvidence(nn.Module):
    """Cuts images into patches, puts a token before them and adds positions; its two blocks carry evidence there."""

    def __init__(self) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, 4, SIDE, SIDE, bias=False)
        self.blocks = nn.ModuleList([Gather(), Gather()])
        with torch.no_grad():
            self.cut.weight.zero_()
            for colour in range(3):
                self.cut.weight[colour, colour] = 1 / (SIDE * SIDE)  # the mean of a patch

    def forward(self, pixel_values: Tensor) -> Tensor:
        state = self.cut(pixel_values).flatten(2).transpose(1, 2)
        state = torch.cat([torch.zeros_like(state[:, :1]), state], 1)
        state = state + POSITION * torch.eye(4)[3] * torch.arange(state.shape[1]).unsqueeze(-1)
        for block in self.blocks:
            state = block(state)
        return 3 * (state[:, 0, 0] - state[:, 0, 2])


def evidence_images(count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Make images of patches of one colour each, and say which: 0 is red, 1 green, 2 blue."""
    colours = torch.randint(0, 3, (count, ROWS, COLUMNS), generator=torch.Generator().manual_seed(seed))
    pixels = torch.eye(3)[colours].permute(0, 3, 1, 2)
    return pixels.repeat_interleave(SIDE, 2).repeat_interleave(SIDE, 3), colours.flatten(1)


def patch_problem(count: int = 300, sites: Sequence[str] | None = None) -> tuple[Adapter, ImageClassification]:
    """Return the model and its task."""
    pixels, _ = evidence_images(count)

    def read(output: Tensor) -> Prediction:
        return {"red": Bernoulli(output)}

    task = ImageClassification(None, pixels[:-50], pixels[-50:], patch=SIDE, output=read)
    batch = Batch({"pixel_values": pixels[:1]}, torch.ones(1, ROWS * COLUMNS, dtype=torch.bool))
    return adapt(PatchEvidence(), example=batch, sites=sites), task
