"""What stands before the application: rules of access, limits on the body, headers, and no traceback to anyone."""

from __future__ import annotations

import logging

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..page.html import CONTENT_SECURITY
from .access import Access
from .body import Bodies, GoneError, replay
from .limits import Limits
from .refusal import Refusal

log = logging.getLogger(__name__)

HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Let through to the application only what may come and is whole."""

    def __init__(self, app: ASGIApp, access: Access, limits: Limits) -> None:
        self.app, self.access, self.bodies = app, access, Bodies(limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        out = Sender(send)
        try:
            headers = Headers(scope=scope)
            self.access.check(scope["path"], headers)
            body = await self.bodies.read(headers, receive)
            with self.bodies.holding(body):
                await self.app(scope, replay(body, receive), out)
        except GoneError:
            pass
        except Refusal as refusal:  # what is left of its body is not read, so nothing more can come on this connection
            refusal.headers["Connection"] = "close"
            await answer(refusal)(scope, receive, out)
        except Exception:
            log.exception("a request failed")
            if not out.started:
                await answer(broken())(scope, receive, out)


class Sender:
    """Pass a response on with the headers every one has."""

    def __init__(self, send: Send) -> None:
        self._send, self.started = send, False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
        await self._send(message)


def answer(refusal: Refusal) -> JSONResponse:
    """Write a refusal down as a response."""
    return JSONResponse({"error": refusal.sentence}, refusal.status, refusal.headers)


def broken() -> Refusal:
    """Say that the service failed, and not how: that is in its log."""
    return Refusal(500, "the service failed on this request: its log says why")
