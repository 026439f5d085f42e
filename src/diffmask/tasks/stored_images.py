"""Small images held as bytes on the model's device: resized and normalised when a batch needs them, by the GPU itself.

An example is the number of an image. Nothing is decoded and nothing travels while a fit runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor

from ..errors import DataError
from ..types import Batch, Categorical, Prediction
from .task import Task

# What DINOv2 and most vision transformers were trained with.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class StoredImages(Task):
    """Keep the distribution over labels; gates may read what stands before the patches too (ask = "prefix")."""

    def __init__(
        self,
        images: UInt8[Tensor, "image 3 height width"],
        train: Sequence[int],
        validation: Sequence[int],
        *,
        size: int,
        patch: int,
        ask: Literal["nowhere", "prefix"] = "nowhere",
        labels: Sequence[str] | None = None,
        mean: Sequence[float] = MEAN,
        std: Sequence[float] = STD,
    ) -> None:
        if size % patch:
            raise DataError(f"images of {size} pixels cannot be cut into patches of {patch}: choose a multiple of it")
        self.images, self.train, self.validation = images, train, validation
        self.mean, self.std = mean, std
        self.ask, self.labels, self.size, self.grid = ask, labels, (size, size), (size // patch, size // patch)

    def collate(self, examples: Sequence[Any]) -> Batch:
        pixels = self.prepare(self.images[self.rows(examples)])
        units = self.grid[0] * self.grid[1]
        return Batch({"pixel_values": pixels}, torch.ones(len(pixels), units, dtype=torch.bool, device=pixels.device))

    def rows(self, examples: Sequence[int]) -> Tensor:
        """Return the numbers of examples as a tensor beside the images."""
        return torch.as_tensor(list(examples), device=self.images.device)

    def prepare(self, images: UInt8[Tensor, "image 3 _ _"]) -> Float[Tensor, "image 3 height width"]:
        """Make bytes what the model takes: resized between pixels, and normalised."""
        wide = F.interpolate(images.float() / 255, self.size, mode="bilinear", align_corners=False)
        return self.normalise(wide)

    def normalise(self, pixels: Float[Tensor, "image 3 height width"]) -> Float[Tensor, "image 3 height width"]:
        """Shift and scale the channels of pixels from 0 to 1 as the model was trained."""
        mean, std = (torch.tensor(numbers, device=pixels.device).view(3, 1, 1) for numbers in (self.mean, self.std))
        return (pixels - mean) / std

    def read(self, output: Any, batch: Batch) -> Prediction:
        return {"label": Categorical(output.logits)}

    def units(self, examples: Sequence[Any]) -> list[list[str]]:
        rows, columns = self.grid
        return [[f"{row},{column}" for row in range(rows) for column in range(columns)] for _ in examples]
