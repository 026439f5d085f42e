"""Entries as HTML: one file with all it needs inside, a page that links its assets, or a piece for a notebook."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal

from ..errors import DiffMaskError
from ..explanation import Explanation
from ..report.methods import grid, notes
from .entries import Entry, entry, shared, visible

if TYPE_CHECKING:
    from jinja2 import Environment

ASSETS = {"view.js": "text/javascript; charset=utf-8", "view.css": "text/css; charset=utf-8"}
# For a server: only its own scripts, styles and answers, and pictures that are written out.
CONTENT_SECURITY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def page_html(
    entries: Sequence[Entry],
    *,
    title: str = "Explanations",
    mode: Literal["report", "live"] = "report",
    comparisons: Mapping[str, Mapping[str, Any]] | None = None,
    made: Mapping[str, Any] | None = None,
    scripts: Sequence[str] = ("view.js",),
    styles: Sequence[str] = ("view.css",),
) -> str:
    """Return a page of entries: whole in one file ("report"), or with links to what a server serves ("live").

    `comparisons` are records of `evaluation.Comparison` by name, `made` says what the page was made with.
    """
    (slim, about), title = shared(entries), visible(title)
    data = {"title": title, "entries": slim, "about": about}
    return (
        _environment()
        .get_template(f"{mode}.html")
        .render(
            title=title,
            data=embedded_json(data),
            tables=[_table(name, record) for name, record in (comparisons or {}).items()],
            made=made or {},
            count=len(slim),
            script=asset("view.js").decode(),
            style=asset("view.css").decode(),
            scripts=scripts,
            styles=styles,
            security=_own_security(),
        )
    )


def fragment_html(explanation: Explanation, text: str | None = None, picture: Any = None) -> str:
    """Return one explanation as static HTML for a notebook: no script, its few styles inside, every depth a line."""
    shown = entry(explanation, text, picture)
    style = asset("fragment.css").decode()
    return _environment().get_template("fragment.html").render(entry=shown, style=style)


def embedded_json(data: Any) -> str:
    """Write JSON that can stand in a script element: ASCII only, and no sign that could end the element."""
    written = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for sign, code in ESCAPED.items():
        written = written.replace(sign, code)
    return written


@cache
def asset(name: str) -> bytes:
    """Return the bytes of one of the page's files."""
    return resources.files("diffmask.page").joinpath("assets", name).read_bytes()


def _table(name: str, record: Mapping[str, Any]) -> dict[str, Any]:
    head, *rows = grid(record)
    return {"name": name, "head": head, "rows": rows, "notes": notes(record)}


@cache
def _own_security() -> str:
    """Allow a report its one script and its one style, known by their hashes, and nothing from anywhere."""
    script, style = (_hash(asset(name)) for name in ("view.js", "view.css"))
    allowed = f"script-src '{script}'; style-src '{style}'; img-src data:"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _hash(content: bytes) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content).digest()).decode()}"


@cache
def _environment() -> Environment:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise DiffMaskError("a page needs Jinja2: pip install 'diffmask[report]'") from error
    loader = PackageLoader("diffmask.page")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters["depth_kept"] = _kept_at
    return made


def _kept_at(shown: Entry, depth: int) -> list[bool]:
    """Say which units of an entry are kept at a depth; at the chosen one, those that were verified."""
    return list(shown["kept"]) if depth == shown["depth"] else [score > 0.5 for score in shown["scores"][depth]]
