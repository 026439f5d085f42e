"""How much one request, and all of them together, may ask of the service."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

from ..errors import SettingError

MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What the service takes; beyond it, a request is refused in one sentence."""

    batch: Annotated[int, "examples the model is run on at once"] = 32
    wait: Annotated[float, "seconds an example waits for others to share a pass with"] = 0.004
    queue: Annotated[int, "examples that may wait; with more, the answer is 503"] = 1024
    seconds: Annotated[float, "a request may take, waiting included; then the answer is 504"] = 30.0
    examples: Annotated[int, "texts in one request"] = 32
    characters: Annotated[int, "of one text"] = 20_000
    pixels: Annotated[int, "of an image, looked up before it is decoded"] = 24_000_000
    body: Annotated[int, "bytes of one request; with more, the answer is 413"] = 12 * MEGABYTE
    bodies: Annotated[int, "bytes of all requests that are being read; with more, the answer is 503"] = 96 * MEGABYTE
    patience: Annotated[float, "seconds a client may take to send a request; then the answer is 408"] = 15.0
    connections: Annotated[int, "open at the same time; with more, the answer is 503"] = 1024

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0 and field.name != "wait":
                raise SettingError(f"limit '{field.name}' must be positive, got {getattr(self, field.name)}")
        if self.queue < self.examples:
            raise SettingError(
                f"a queue of {self.queue} never has room for a request of {self.examples} texts: allow a longer queue"
            )
