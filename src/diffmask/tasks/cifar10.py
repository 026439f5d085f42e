"""Read CIFAR-10 (Krizhevsky 2009) from one array file, or from packed parts that are half its size.

`cifar10.npz` holds x_train, y_train, x_test and y_test: bytes (image, 32, 32, 3) and labels. A part, `train-0.xz` or
`test-0.xz`, is compressed without loss: each value is written as its difference from what its neighbours to the left
and above foretell (the median edge detector of LOCO-I, Weinberger et al. 2000), red and blue as differences from green.
"""

from __future__ import annotations

import lzma
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from ..errors import DataError
from ..storage import write_file

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
WHOLE, PARTS = "cifar10.npz", ("train", "test")
SIDE, VALUES = 32, 3 * 32 * 32
Planes = UInt8[np.ndarray, "image 3 32 32"]


@dataclass(frozen=True)
class Labelled:
    """Images as bytes, and what they show."""

    images: UInt8[Tensor, "image 3 32 32"]
    labels: Int64[Tensor, " image"]

    def __len__(self) -> int:
        return len(self.images)


def image_files(directory: Path, parts: Sequence[str] = PARTS) -> list[Path]:
    """List the files of a directory that hold these parts: the array file if it is there, or else what was packed."""
    whole = directory / WHOLE
    return [whole] if whole.is_file() else [path for part in parts for path in sorted(directory.glob(f"{part}-*.xz"))]


def read_cifar10(directory: Path, part: str) -> Labelled:
    """Read the images of `train` or `test`, as many as there are."""
    files = image_files(directory, [part])
    if not files:
        raise DataError(
            f"no CIFAR-10 in '{directory}': it needs {WHOLE}, or parts named {part}-0.xz that pack_images made"
        )
    if files[0].name == WHOLE:
        with np.load(files[0]) as arrays:
            return _labelled(arrays[f"x_{part}"].transpose(0, 3, 1, 2), arrays[f"y_{part}"])
    images, labels = zip(*(unpack_images(path) for path in files), strict=True)
    return _labelled(np.concatenate(images), np.concatenate(labels))


def _labelled(images: Planes, labels: UInt8[np.ndarray, " image"]) -> Labelled:
    return Labelled(torch.from_numpy(np.ascontiguousarray(images)), torch.from_numpy(labels.astype(np.int64)))


def pack_images(path: Path, images: Planes, labels: UInt8[np.ndarray, " image"]) -> None:
    """Write images and their labels as a part."""
    planes = _from_green(images).astype(np.int16)
    rest = (planes - _foretold(planes)).astype(np.uint8)  # differences are taken modulo 256, and so lose nothing
    count = len(images).to_bytes(4, "little")
    body = rest.transpose(1, 0, 2, 3).tobytes()  # plane by plane: what is alike stands together
    write_file(path, lzma.compress(count + labels.tobytes() + body, preset=9))


def unpack_images(path: Path) -> tuple[Planes, UInt8[np.ndarray, " image"]]:
    """Read a part back: the images and their labels."""
    try:
        raw = lzma.decompress(path.read_bytes())
    except (OSError, lzma.LZMAError, EOFError) as error:
        raise DataError(f"'{path}' is no part of packed images ({error}): pack it again") from error
    count = int.from_bytes(raw[:4], "little")
    if len(raw) != 4 + count * (1 + VALUES):
        raise DataError(f"'{path}' is cut off: {count} images take {4 + count * (1 + VALUES)} bytes, got {len(raw)}")
    labels = np.frombuffer(raw, np.uint8, count, 4)
    rest = np.frombuffer(raw, np.uint8, count * VALUES, 4 + count).reshape(3, count, SIDE, SIDE).transpose(1, 0, 2, 3)
    return _to_colours(_restored(rest)), labels


def _from_green(images: Planes) -> Planes:
    red, green, blue = images.transpose(1, 0, 2, 3)
    return np.stack([green, red - green, blue - green], axis=1)


def _to_colours(planes: Planes) -> Planes:
    green, red, blue = planes.transpose(1, 0, 2, 3)
    return np.stack([red + green, green, blue + green], axis=1)


def _foretold(planes: np.ndarray) -> np.ndarray:
    """Foretell every value from its neighbours; beyond the border there is 0."""
    wide = np.pad(planes, ((0, 0), (0, 0), (1, 0), (1, 0)))
    return _median(wide[:, :, 1:, :-1], wide[:, :, :-1, 1:], wide[:, :, :-1, :-1])


def _median(left: np.ndarray, above: np.ndarray, corner: np.ndarray) -> np.ndarray:
    """Return the median of left, above and left + above − corner."""
    low, high = np.minimum(left, above), np.maximum(left, above)
    return np.clip(left + above - corner, low, high)


def _restored(rest: Planes) -> Planes:
    """Undo the foretelling, pixel by pixel, for all images at once."""
    wide = np.zeros((SIDE + 1, SIDE + 1, *rest.shape[:2]), np.int16)
    turned = np.ascontiguousarray(rest.transpose(2, 3, 0, 1))
    for row in range(SIDE):
        for column in range(SIDE):
            near = wide[row + 1, column], wide[row, column + 1], wide[row, column]
            wide[row + 1, column + 1] = (turned[row, column] + _median(*near)) & 255
    return wide[1:, 1:].astype(np.uint8).transpose(2, 3, 0, 1)
