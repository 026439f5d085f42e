"""HTTP connections that are closed when a client does not finish the head of its request.

uvicorn waits for it as long as the connection is open, so that a client that sends a letter a minute could hold as many
connections as there may be.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


def patient_for(seconds: float) -> type[asyncio.Protocol]:
    """Return a kind of connection on which the head of each request is whole within so many seconds."""

    class Patient(H11Protocol):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._watch(True)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch(self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0]))

        def connection_lost(self, exc: Exception | None) -> None:
            self._watch(False)
            super().connection_lost(exc)

        def _watch(self, waiting: bool) -> None:
            """Start the clock if the head is not whole, and stop it when it is; more of the head is no new start."""
            if waiting and self._timer is None:
                self._timer = self.loop.call_later(seconds, self.transport.close)
            elif not waiting and self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return Patient
