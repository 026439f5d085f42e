"""A real Chromium for tests: what a page logs and asks for is counted, and nothing leaves it."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

NEEDED = "DIFFMASK_NEED_CHROMIUM"  # set by CI: a missing browser is then a failure, not a skip
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@dataclass
class Watched:
    """A browser page, with what went wrong on it and what it asked of the world."""

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def open(self, html: str, path: Path, fragment: str = "") -> Any:
        """Open HTML from a file, as a double click does."""
        path.write_text(html, encoding="utf-8")
        self.page.goto(path.as_uri() + fragment)
        return self.page

    def check(self) -> None:
        """Fail if the page logged an error, or asked for anything but itself."""
        assert self.errors == []
        assert [url for url in self.requests if not url.startswith(("file:", "data:", "blob:"))] == []


def _missing(why: str) -> None:
    if os.environ.get(NEEDED):
        pytest.fail(f"{NEEDED} is set and {why}")
    pytest.skip(f"skipped, no browser test ran: {why}")


@pytest.fixture(scope="module")  # not longer: its event loop would stand in the way of tests that run their own
def chromium() -> Iterator[Any]:
    """Start Debian's Chromium once for the tests of a file."""
    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if program is None:
        _missing("there is no chromium: apt-get install chromium, or set CHROMIUM to its path")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("there is no playwright: pip install playwright")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def chromium_page(chromium: Any) -> Iterator[Watched]:
    """Give a new page whose errors and requests are counted; requests beyond this machine are aborted."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    watched = Watched(context.new_page())
    watched.page.set_default_timeout(10_000)
    watched.page.on("console", lambda message: message.type == "error" and watched.errors.append(message.text))
    watched.page.on("pageerror", lambda error: watched.errors.append(str(error)))
    watched.page.on("request", lambda request: watched.requests.append(request.url))
    context.route("**/*", _local_only)
    yield watched
    context.close()


def _local_only(route: Any) -> None:
    url = route.request.url
    if url.startswith(("file:", "data:", "blob:", "http://127.0.0.1", "http://localhost")):
        route.continue_()
    else:
        route.abort()
