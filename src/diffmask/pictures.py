"""Open a picture of any kind as a model takes it: upright, opaque, grey or coloured, and not before its size is known.

Transparent parts show white, as on a page. Nothing here is kept: a picture is decoded when a batch needs it.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from .errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image

Seen = Sequence[Any]  # the middle of a picture: of what it is a share, and which share across and down
BASES: dict[str, Callable[[int, int], tuple[int, int]]] = {
    "sides": lambda width, height: (width, height),
    "shorter side": lambda width, height: (min(width, height),) * 2,
    "pixels": lambda width, height: (1, 1),
}

log = logging.getLogger(__name__)

MOST_PIXELS = 64_000_000  # a phone's largest photograph; decoded, it takes 200 MB
SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".pgm", ".tif", ".tiff", ".webp"}
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")  # of bytes, which may come from anyone
NAMED = 10  # of the files that are skipped, as many are named
BROKEN = (OSError, SyntaxError, ValueError, EOFError, KeyError, IndexError, TypeError)  # what decoders raise
DEEP_GREYS = ("I;16", "I;16L", "I;16B", "I;16N")  # 16 bits a pixel, which Pillow would cut off at 255
DEEP_FORMATS = ("PNG", "PPM")  # of which mode I is 16 bits too; of others it is numbers of any size


def open_picture(source: Any, channels: int = 3, most: int = MOST_PIXELS) -> Image:
    """Open a file, its bytes, an array, a tensor of bytes or a PIL image, and convert it to as many channels."""
    from PIL import Image

    if isinstance(source, str | Path):
        return _open_file(Path(source), channels, most)
    if isinstance(source, bytes):
        return _open_file(BytesIO(source), channels, most)
    if isinstance(source, Tensor) and source.dim() == 3:
        source = source.cpu().permute(1, 2, 0).numpy()
    if isinstance(source, np.ndarray):
        source = _from_array(source)
    if not isinstance(source, Image.Image):
        raise DataError(
            f"an image must be a file, a PIL image, an array or a tensor, got {type(source).__name__}: "
            "of a data set's rows, name the column that holds it with column='…'"
        )
    file = getattr(source, "filename", "")  # of what was opened from one
    name = f"'{file}'" if file else "an image"
    _check_size(source, name, most)
    try:
        return plain(source, channels, name)  # which decodes what was only opened
    except BROKEN as error:
        raise _unreadable(name, error) from error


def as_shown(source: Any, seen: Seen | None = None) -> Image:
    """Open a picture as the model was shown it: as a task opens it, with what the processor cut off left out.

    A tensor of floats, from 0 to 1, is what the model was shown already.
    """
    if isinstance(source, Tensor) and source.is_floating_point():
        return open_picture((255 * source.detach().clamp(0, 1)).round().to(torch.uint8))
    image = open_picture(source)
    return image if seen is None else image.crop(_middle(seen, image.size))


def _middle(seen: Seen, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return the left, upper, right and lower end of what is seen of a picture of some width and height."""
    name, *shares = seen
    parts = [round(share * base) for share, base in zip(shares, BASES[name](*size), strict=True)]
    left, top = ((whole - part) // 2 for whole, part in zip(size, parts, strict=True))
    return left, top, left + parts[0], top + parts[1]


def undecoded(value: Any) -> Any:
    """Return the bytes or the path of an image as data sets store it; anything else as it is."""
    if not isinstance(value, Mapping):
        return value
    return value.get("path") if value.get("bytes") is None else value["bytes"]


def plain(image: Image, channels: int, name: str) -> Image:
    """Turn a picture upright, lay it on white and convert it to grey or to red, green and blue."""
    from PIL import Image, ImageOps

    deep = image.mode in DEEP_GREYS or (image.mode == "I" and image.format in DEEP_FORMATS)
    image = ImageOps.exif_transpose(image)  # which forgets the format
    if deep:
        image = Image.fromarray((np.asarray(image).astype(np.uint32) // 257).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise DataError(
            f"{name} has mode '{image.mode}', numbers of any size and no shades: scale it to bytes first, 0 to 255"
        )
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("L" if channels == 1 else "RGB")


def picture_folder(folder: str | Path, check: bool = True, most: int = MOST_PIXELS) -> list[Path]:
    """List the pictures in a folder and those in it, by name; what cannot be read is left out and named in a warning.

    To find out, every picture is decoded once, unless `check` is off: a bad one then stops the batch it comes into.
    """
    if not Path(folder).is_dir():
        raise DataError(f"'{folder}' is no folder of pictures: there is no such directory")
    paths = sorted(path for path in Path(folder).rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    if not paths:
        raise DataError(f"the folder '{folder}' holds no pictures ({', '.join(sorted(SUFFIXES))}): name another")
    reasons = {path: why for path in paths if (why := _trouble(path, most))} if check else {}
    if len(reasons) == len(paths):
        raise DataError(f"none of the {len(paths)} pictures in '{folder}' can be read: {next(iter(reasons.values()))}")
    if reasons:
        names = ", ".join(str(path.relative_to(folder)) for path in list(reasons)[:NAMED])
        more = f" and {len(reasons) - NAMED} more" if len(reasons) > NAMED else ""
        log.warning("%d of %d pictures in '%s' are skipped: %s%s", len(reasons), len(paths), folder, names, more)
        log.info("why they are skipped: %s", "; ".join(reasons.values()))
    return [path for path in paths if path not in reasons]


def _trouble(path: Path, most: int) -> str | None:
    try:
        _open_file(path, 3, most, quick=True)
    except DataError as error:
        return str(error)
    return None


def _open_file(path: Path | BytesIO, channels: int, most: int, quick: bool = False) -> Image:
    """Open a file, and decode it if it is not too large; `quick` is enough to see whether that can be done."""
    from PIL import Image, UnidentifiedImageError

    name, formats = (f"'{path}'", None) if isinstance(path, Path) else ("an image", FORMATS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of large pictures, which are refused below, and of odd metadata
            with Image.open(path, formats=formats) as image:
                _check_size(image, name, most)
                if quick:
                    image.draft("RGB", (1, 1))  # a JPEG is read whole and unpacked at an eighth of its size
                image.load()
                return plain(image, channels, name)
    except FileNotFoundError:
        raise DataError(f"there is no picture {name}: give the path of one") from None
    except Image.DecompressionBombError as error:
        raise DataError(
            f"{name} is too large to be decoded ({str(error).rstrip('.')}): make it smaller first, or raise Pillow's "
            "own limit too, PIL.Image.MAX_IMAGE_PIXELS"
        ) from error
    except BROKEN as error:
        if isinstance(error, UnidentifiedImageError) and formats:
            known = ", ".join(FORMATS)
            raise DataError(f"{name} cannot be read: its bytes are none of {known}; save it as PNG") from None
        raise _unreadable(name, error) from error


def _unreadable(name: str, error: Exception) -> DataError:
    return DataError(f"{name} cannot be read as a picture ({error}): replace it or leave it out")


def _check_size(image: Image, name: str, most: int) -> None:
    if not image.width * image.height:
        raise DataError(
            f"{name} has {image.width}×{image.height} pixels, so that there is nothing to see: leave it out"
        )
    if image.width * image.height > most:
        raise DataError(
            f"{name} has {image.width}×{image.height} pixels, more than the {most:,} that are decoded: make it smaller "
            "first, or, in Python, allow more with most_pixels=…"
        )


def _from_array(pixels: Any) -> Image:
    from PIL import Image

    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] not in (1, 3, 4)):
        raise DataError(
            f"an image of {pixels.dtype} and shape {pixels.shape} is not understood: give bytes (height, width, "
            "channel), or what the model takes as a tensor of floats (channel, height, width)"
        )
    if not pixels.size:
        raise DataError(f"an image of shape {pixels.shape} has no pixels: leave it out")
    return Image.fromarray(pixels[:, :, 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels)


def as_pixels(processed: Any) -> Tensor:
    """Return what a processor made of pictures as a tensor: some make arrays, or lists of them."""
    return processed if isinstance(processed, Tensor) else torch.from_numpy(np.asarray(processed, np.float32))


def as_bytes(images: Any) -> Tensor:
    """Turn pictures of one size into a tensor of bytes (image, channel, height, width)."""
    arrays = [np.asarray(image) for image in images]
    arrays = [array[:, :, None] if array.ndim == 2 else array for array in arrays]
    return torch.from_numpy(np.stack(arrays)).permute(0, 3, 1, 2)
