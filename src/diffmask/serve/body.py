"""Read a request's body before anything else does: no larger and no slower than allowed, and not too many at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from starlette.types import Message, Receive

from .limits import Limits
from .refusal import Refusal, too_busy

LINGER = 1.0  # seconds a client that sends too much may go on: one that is cut off at once never reads the answer


class GoneError(Exception):
    """The client hung up before its request was whole."""


class Bodies:
    """The bodies that are held now, all together within a bound."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self.held = limits, 0

    async def read(self, headers: Mapping[str, str], receive: Receive) -> bytes:
        """Read a whole body; what was announced as too large is not read at all."""
        length, parts = headers.get("content-length", "0"), _parts(receive)
        if length.isdecimal() and int(length) > self._limits.body:
            raise await self._too_large(parts)
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.patience):
                async for part in parts:
                    if len(body) + len(part) > self._limits.body:  # asked first: that is no one else's doing
                        break
                    self._add(body, part)
                else:
                    return bytes(body)
        except TimeoutError:
            sentence = f"the request was not whole after {self._limits.patience:g} seconds: send it faster"
            raise Refusal(408, sentence) from None
        finally:
            self.held -= len(body)
        raise await self._too_large(parts)

    @contextlib.contextmanager
    def holding(self, body: bytes) -> Iterator[None]:
        """Count a body that was read for as long as the request goes on."""
        self.held += len(body)
        try:
            yield
        finally:
            self.held -= len(body)

    def _add(self, body: bytearray, part: bytes) -> None:
        if self.held + len(part) > self._limits.bodies:
            raise too_busy("too many large requests at once: try again in a moment")
        body += part
        self.held += len(part)

    async def _too_large(self, parts: AsyncIterator[bytes]) -> Refusal:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER):
                async for _ in parts:
                    pass
        most = self._limits.body
        return Refusal(413, f"the request is larger than the {most:,} bytes it may have: send less")


async def _parts(receive: Receive) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise GoneError
        yield message.get("body", b"")
        more = message.get("more_body", False)


def replay(body: bytes, receive: Receive) -> Receive:
    """Give a body that was read to whoever asks for it, and then what comes after it."""
    whole: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return whole.pop() if whole else await receive()

    return again
