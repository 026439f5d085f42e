"""Pictures inside a page: made small, and written into it, so that nothing has to be fetched."""

from __future__ import annotations

import base64
import io
import re
from typing import Any

from ..errors import DataError, DiffMaskError
from ..pictures import Seen, as_shown

LARGEST = 384  # pixels of the longer side: sharp enough on a page, small enough for hundreds of them
URI = re.compile(r"data:image/(png|jpeg|webp|gif);base64,[A-Za-z0-9+/]+={0,2}")


def picture_uri(image: Any, seen: Seen | None = None) -> str:
    """Return an image of any kind that a task takes as a data URI: what the model saw, no larger than a page needs."""
    try:
        small = as_shown(image, seen)
    except ImportError as error:
        raise DiffMaskError("pictures need Pillow: pip install 'diffmask[vision]'") from error
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
