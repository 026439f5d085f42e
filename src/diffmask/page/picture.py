"""Pictures inside a page: made small, and written into it, so that nothing has to be fetched."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path
from typing import Any

from ..errors import DataError, DiffMaskError

LARGEST = 384  # pixels of the longer side: sharp enough on a page, small enough for hundreds of them
PIXELS = 64_000_000  # a picture with more was not made by a camera
URI = re.compile(r"data:image/(png|jpeg|webp|gif);base64,[A-Za-z0-9+/]+={0,2}")


def picture_uri(image: Any) -> str:
    """Return an image (PIL, a path, the bytes of a file) as a data URI, no larger than a page needs."""
    small = _as_seen(_opened(image))
    small.thumbnail((LARGEST, LARGEST))
    out = io.BytesIO()
    plain = len(small.getcolors(4096) or ()) > 0  # few colours: a drawing, which JPEG would smear
    small.save(out, "PNG" if plain else "JPEG", **({} if plain else {"quality": 85}))
    return f"data:image/{'png' if plain else 'jpeg'};base64,{base64.b64encode(out.getvalue()).decode()}"


def check_picture(uri: Any) -> str | None:
    """Refuse a picture that is not written out in its record: a page fetches nothing."""
    if uri is None:
        return None
    if not isinstance(uri, str) or not URI.fullmatch(uri):
        raise DataError(
            f"a picture must be a data URI of a PNG, JPEG, WebP or GIF, got {str(uri)[:40]!r}: make it with "
            "diffmask.page.picture.picture_uri(image)"
        )
    return uri


def _as_seen(image: Any) -> Any:
    """Show a picture as the model was shown it: upright, on white, its 16 bits a pixel made 8."""
    from PIL import Image, ImageOps

    upright = ImageOps.exif_transpose(image)
    if upright.mode.startswith("I;16"):
        upright = upright.convert("I").point(lambda shade: shade / 257).convert("L")
    if upright.has_transparency_data:
        upright = upright.convert("RGBA")
        upright = Image.alpha_composite(Image.new("RGBA", upright.size, "white"), upright)
    return upright.convert("RGB")


def _opened(image: Any) -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise DiffMaskError("pictures need Pillow: pip install 'diffmask[vision]'") from error
    if isinstance(image, Image.Image):
        return image
    try:
        opened = Image.open(io.BytesIO(image) if isinstance(image, bytes) else Path(image))
        if opened.width * opened.height > PIXELS:
            raise DataError(f"an image of {opened.width}×{opened.height} is too large: give at most {PIXELS} pixels")
        opened.load()
    except (OSError, TypeError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"not an image ({error}): give a PNG or JPEG, or an image of Pillow") from error
    return opened
