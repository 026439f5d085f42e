"""Images for any vision transformer: a unit is a patch, named by its row and column.

An image is a file, a PIL image, an array or tensor of bytes, or, ready for the model, a tensor of floats (channel,
height, width). It may stand in a row of a data set, or before its label. Files are decoded when a batch needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, overload

import numpy as np
import torch
from torch import Tensor

from ..errors import DataError, SettingError
from ..pictures import MOST_PIXELS, as_bytes, as_pixels, open_picture, picture_folder, undecoded
from ..types import Batch, Categorical, Prediction
from .seen import part_seen
from .task import Task

HALF = (0.5, 0.5, 0.5)


@dataclass(frozen=True)
class PlainProcessor:
    """Resize images and normalise their channels, called like the image processors of transformers.

    >>> PlainProcessor((8, 12))(images=[np.zeros((20, 20, 3), np.uint8)])["pixel_values"].shape
    torch.Size([1, 3, 8, 12])
    """

    size: Annotated[tuple[int, int], "height and width of what the model sees"]
    image_mean: Annotated[tuple[float, ...], "of each channel, from 0 to 1; one number for grey images"] = HALF
    image_std: Annotated[tuple[float, ...], "of each channel"] = HALF

    def __call__(self, images: Sequence[Any], return_tensors: str = "pt") -> dict[str, Tensor]:
        from PIL import Image

        height, width = self.size
        opened = [open_picture(image, len(self.image_mean)) for image in images]
        pixels = as_bytes([image.resize((width, height), Image.Resampling.BILINEAR) for image in opened]).float() / 255
        mean, std = (torch.tensor(numbers).view(-1, 1, 1) for numbers in (self.image_mean, self.image_std))
        return {"pixel_values": (pixels - mean) / std}


class Examples(Sequence[Any]):
    """Some rows of a data set, read one by one; a part of them is read no sooner."""

    def __init__(self, source: Any, rows: range) -> None:
        self.source, self.rows = source, rows

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, key: int) -> Any: ...
    @overload
    def __getitem__(self, key: slice) -> Examples: ...
    def __getitem__(self, key: int | slice) -> Any:
        return Examples(self.source, self.rows[key]) if isinstance(key, slice) else self.source[self.rows[key]]


class ImageClassification(Task):
    """Keep the distribution over labels, or what `output` reads; `patch` is the model's, e.g. `adapt(vit).patch`.

    `train` and `validation` are lists of images, a tensor of them, a data set or a folder of pictures; None for a task
    that only explains. All images have one size once they are processed; `interpolate` asks the model to stretch its
    positions to another than its own.
    """

    labelled = True

    def __init__(
        self,
        processor: Any,
        train: Any,
        validation: Any,
        *,
        patch: int | tuple[int, int] | None,
        labels: Sequence[str] | None = None,
        output: Callable[[Any], Prediction] | None = None,
        interpolate: bool = False,
        column: str = "image",
        most_pixels: int = MOST_PIXELS,
        size: tuple[int, int] | None = None,
    ) -> None:
        self.processor, self.labels, self.column, self.most_pixels = processor, labels, column, most_pixels
        self.patch = _sides(patch)
        self.train, self.validation = (
            [] if part is None else as_examples(part, most_pixels) for part in (train, validation)
        )
        self.interpolate, self.output = interpolate, output
        self.extra: dict[str, Any] = {"interpolate_pos_encoding": True} if interpolate else {}
        self._size = size  # if it is not given, the first image tells
        mean = getattr(processor, "image_mean", HALF)
        self._channels = len(mean) if isinstance(mean, Sequence) else len(HALF)

    @property
    def size(self) -> tuple[int, int]:
        """The height and width of the images the model sees."""
        if self._size is None:
            image = self.picture(self.train[0])
            self._sized(self.pixels(image), image)
        assert self._size is not None  # an image has a size
        return self._size

    @property
    def grid(self) -> tuple[int, int]:
        """How many rows and columns of patches an image has."""
        (height, width), (down, across) = self.size, self.patch
        if height % down or width % across:
            raise DataError(
                f"images of {height}×{width} pixels cannot be cut into patches of {down}×{across}: pass the patch of "
                "the model, adapt(model).patch, and its own processor"
            )
        return height // down, width // across

    @cached_property
    def seen(self) -> tuple[str, float, float] | None:
        """Which part of a picture the model sees, for those who draw over it; None if that is all of it."""
        return None if self.processor is None else part_seen(self.pixels)

    def collate(self, examples: Sequence[Any]) -> Batch:
        images = [self.picture(example) for example in examples]
        pixels = torch.stack([self._sized(self.pixels(image), image) for image in images])
        self._check_finite(pixels, images)
        rows, columns = self.grid
        return Batch({"pixel_values": pixels, **self.extra}, torch.ones(len(pixels), rows * columns, dtype=torch.bool))

    def read(self, output: Any, batch: Batch) -> Prediction:
        if self.output is not None:
            return self.output(output)
        if self.labels is not None and len(self.labels) != output.logits.shape[-1]:
            raise DataError(
                f"{len(self.labels)} labels are named and the model knows {output.logits.shape[-1]}: name each of them"
            )
        return {"label": Categorical(output.logits)}

    def units(self, examples: Sequence[Any]) -> list[list[str]]:
        rows, columns = self.grid
        return [[f"{row},{column}" for row in range(rows) for column in range(columns)] for _ in examples]

    def pixels(self, image: Any) -> Tensor:
        """Return an image as the model takes it: (channel, height, width)."""
        if isinstance(image, Tensor) and image.is_floating_point():
            return image
        if self.processor is None:
            raise DataError("only tensors of floats are ready for the model: give a processor, e.g. PlainProcessor")
        opened = open_picture(image, self._channels, self.most_pixels)
        try:
            return as_pixels(self.processor(images=[opened], return_tensors="pt")["pixel_values"])[0]
        except (TypeError, ValueError, KeyError) as error:
            raise DataError(
                f"{type(self.processor).__name__} makes no pixel_values of an image ({error}): give the model's own"
            ) from error

    def picture(self, example: Any) -> Any:
        """Return the image of an example: of a row of a data set, or of a pair with a label, or the example itself."""
        if isinstance(example, Mapping):
            if self.column not in example:
                known = ", ".join(map(str, example))
                raise DataError(f"a row has no column '{self.column}', only {known}: name it with column='…'")
            return undecoded(example[self.column])
        return example[0] if isinstance(example, tuple) else example

    def _sized(self, pixels: Tensor, image: Any) -> Tensor:
        """Refuse an image of another size than the first: a task has one grid."""
        if pixels.dim() != 3:
            raise DataError(f"{_name(image)} has shape {tuple(pixels.shape)}, and (channel, height, width) is needed")
        height, width = pixels.shape[1:]
        self._size = self._size or (height, width)
        if self._size != (height, width):
            raise DataError(
                f"{_name(image)} has {height}×{width} pixels when the model sees it, and others "
                f"{'×'.join(map(str, self._size))}: give images of one size, or a processor that resizes or crops"
            )
        return pixels

    @staticmethod
    def _check_finite(pixels: Tensor, images: Sequence[Any]) -> None:
        counts = (~pixels.isfinite()).flatten(1).sum(1)
        if bool(counts.any()):
            row = int(counts.nonzero()[0])
            raise DataError(
                f"{_name(images[row])} has NaN or infinite pixels, {int(counts[row])} of them "
                f"(number {row} of its batch): leave it out"
            )


def _sides(patch: Any) -> tuple[int, int]:
    """Return the height and width of a patch."""
    sides = (patch, patch) if isinstance(patch, int) else patch
    if (
        isinstance(sides, tuple | list)
        and len(sides) == 2
        and all(isinstance(side, int) and side > 0 for side in sides)
    ):
        return sides[0], sides[1]
    raise SettingError(
        f"patch is the height and width of a patch in pixels, got {patch!r}: pass patch=adapt(model).patch, or of a "
        "map named by hand the pixels that each of its places stands for"
    )


def _name(image: Any) -> str:
    return f"'{image}'" if isinstance(image, str | Path) else "an image"


def as_examples(source: Any, most_pixels: int = MOST_PIXELS) -> Sequence[Any]:
    """Turn a folder, a tensor or an array of images or a data set into a sequence of examples."""
    if isinstance(source, str | Path):
        return picture_folder(source, most=most_pixels)
    if isinstance(source, Tensor | np.ndarray) and source.ndim != 4:
        raise DataError(f"images in a tensor have 4 axes (image, channel, height, width), got {tuple(source.shape)}")
    if not isinstance(source, list | tuple | range | Examples):
        if not hasattr(source, "__len__") or not hasattr(source, "__getitem__"):
            raise DataError(f"images come as a list, a tensor, a folder or a data set, got {type(source).__name__}")
        source = Examples(source, range(len(source)))
    if not len(source):
        raise DataError("there are no images: the list or data set is empty")
    return source
