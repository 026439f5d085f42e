"""One thread that owns the model, and a queue before it: requests that ask alike share a pass.

Requests come from many threads or tasks; only this one thread runs the work, so the model needs no lock. What waits is
bounded, and a request that was given up while it waited is never worked on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

log = logging.getLogger(__name__)

Work = Callable[[Any, list[Any]], list[Any]]


class FullError(Exception):
    """The queue has no room for a request."""


class ClosedError(Exception):
    """The service is stopping, and takes nothing more."""


@dataclass(eq=False)
class Job:
    """Examples of one request, the settings they are asked with, and where the answer goes."""

    settings: Hashable
    examples: Sequence[Any]
    answer: Future[list[Any]] = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)


class Batcher:
    """Call `work(settings, examples)` with examples of several requests at once, up to `most`, after a short `wait`."""

    def __init__(self, work: Work, *, most: int, wait: float, room: int) -> None:
        self._work, self._most, self._wait, self._room = work, most, wait, room
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="diffmask-model", daemon=True)

    def __enter__(self) -> Batcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Finish the pass that is running, and turn away what waits."""
        with self._changed:
            self._closed = True
            left, self._jobs = self._jobs, deque()
            self._changed.notify_all()
        for job in left:
            if job.answer.set_running_or_notify_cancel():
                job.answer.set_exception(ClosedError())
        self._thread.join()

    @property
    def alive(self) -> bool:
        """Whether the thread is there to answer."""
        return self._thread.is_alive() and not self._closed

    @property
    def waiting(self) -> int:
        """How many examples wait."""
        with self._changed:
            return self._count()

    def submit(self, settings: Hashable, examples: Sequence[Any]) -> Future[list[Any]]:
        """Put examples in the queue; the answer has one entry for each of them."""
        job = Job(settings, examples)
        with self._changed:
            if self._closed:
                raise ClosedError
            if self._count() + len(examples) > self._room:
                raise FullError
            self._jobs.append(job)
            self._changed.notify()
        return job.answer

    def _count(self, settings: Hashable | None = None) -> int:
        return sum(len(job.examples) for job in self._jobs if settings is None or job.settings == settings)

    def _run(self) -> None:
        while jobs := self._next():
            self._answer(jobs)

    def _next(self) -> list[Job]:
        """Wait for a job, then a moment for others like it; nothing means that it is time to stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._closed)
            if self._closed:
                return []
            first = self._jobs[0]
            left = first.since + self._wait - time.monotonic()
            self._changed.wait_for(lambda: self._closed or self._count(first.settings) >= self._most, max(left, 0.0))
            return self._take(first.settings)

    def _take(self, settings: Hashable) -> list[Job]:
        """Take the oldest jobs with these settings, at least one, and leave the others in their order."""
        taken: list[Job] = []
        left: deque[Job] = deque()
        for job in self._jobs:
            size = sum(len(each.examples) for each in taken) + len(job.examples)
            fits = job.settings == settings and (not taken or size <= self._most)
            (taken if fits else left).append(job)
        self._jobs = left
        return taken

    def _answer(self, jobs: list[Job]) -> None:
        jobs = [job for job in jobs if job.answer.set_running_or_notify_cancel()]  # others were given up meanwhile
        if not jobs:
            return
        try:
            found = self._work(jobs[0].settings, [example for job in jobs for example in job.examples])
        except Exception as error:
            if len(jobs) == 1:
                jobs[0].answer.set_exception(error)
                return
            for job in jobs:  # one bad example must not cost its batch mates their answers
                self._alone(job)
            return
        rows = iter(found)
        for job in jobs:
            job.answer.set_result([next(rows) for _ in job.examples])

    def _alone(self, job: Job) -> None:
        try:
            job.answer.set_result(self._work(job.settings, list(job.examples)))
        except Exception as error:
            job.answer.set_exception(error)
