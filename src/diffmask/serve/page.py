"""The live page: the view of the report, fed by questions to this service instead of by a file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from ..page.entries import Entry, entry
from ..page.html import ASSETS as VIEW
from ..page.html import asset, page_html

OWN = {"live.js": "text/javascript; charset=utf-8", "live.css": "text/css; charset=utf-8"}
TYPES = {**VIEW, **OWN}
PATHS = tuple(f"/page/{name}" for name in TYPES)


@cache
def live_page() -> str:
    """Return the page itself, which holds nothing but links to its files."""
    scripts, styles = ([f"page/{name}" for name in TYPES if name.endswith(end)] for end in (".js", ".css"))
    return page_html([], title="Explain", mode="live", scripts=scripts, styles=styles)


def page_file(name: str) -> bytes:
    """Return one of the page's files."""
    if name in OWN:
        return resources.files("diffmask.serve").joinpath("assets", name).read_bytes()
    return asset(name)


def live_entry(explained: Mapping[str, Any], picture: bytes | None = None) -> Entry:
    """Turn an answer of the service into what the view takes, with its picture as the model saw it."""
    text = explained["text"]
    plain = " ".join(text) if isinstance(text, list) else text
    return {**entry({**explained, "text": plain}, picture=picture), "cut": explained["cut"]}
