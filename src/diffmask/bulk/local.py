"""The default engine: this process, one chunk after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .shard import Tally
from .worker import Job, Worker


def work(job: Job, chunks: Sequence[int], workers: int | None = None, address: str | None = None) -> Iterator[Tally]:
    """Explain the chunks in their order, and say of each how it went."""
    worker = Worker(job)
    for chunk in chunks:
        yield worker.do(chunk)
