"""One explanation as a page of its own."""

from __future__ import annotations

from typing import Any

from ..explanation import Explanation
from ..provenance import versions
from .entries import entry
from .html import page_html


def page(explanation: Explanation, text: str | None = None, picture: Any = None, *, title: str | None = None) -> str:
    """Return an explanation as a self-contained page with a slider over depth."""
    shown = entry(explanation, text, picture)
    return page_html([shown], title=title or "Explanation", made={"diffmask": versions().get("diffmask", "unknown")})
