"""One worker: holds a model with its probe, and turns chunks of rows into shards."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..errors import DataError, DiffMaskError, InfeasibleError, ModelError
from ..explaining.explainer import Explainer
from ..explaining.pretrained import from_pretrained
from ..tasks.few import FirstFew
from ..tasks.images import ImageClassification
from ..tasks.readers import image_of
from ..training.fit import Fit
from .rows import Cursor, Row, Table
from .shard import Found, Tally, shard_name, write_shard

OF_ONE_ROW = (DataError, ModelError, InfeasibleError)  # what is wrong with a row, not with the run
FULL = ("out of memory", "not enough memory", "can't allocate memory")


@dataclass(frozen=True)
class Saved:
    """A saved probe by its name, to be loaded wherever the work is done: on a GPU if there is one."""

    run: str = "embedded"
    model: str | None = None
    strict: bool = False
    device: str | None = None

    def __call__(self) -> Fit:
        device = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        return from_pretrained(self.run, model=self.model, strict=self.strict, device=device)


@dataclass(frozen=True)
class Job:
    """All a worker needs to know; `chunk_size` rows make a chunk, and `run` marks its shards."""

    load: Callable[[], Fit]
    table: Table
    row_count: int
    output: Path
    run: str
    depth: int
    certified: bool
    batch_size: int
    chunk_size: int

    @property
    def chunk_count(self) -> int:
        return -(-self.row_count // self.chunk_size)

    def rows_of(self, chunk: int) -> range:
        return range(chunk * self.chunk_size, min((chunk + 1) * self.chunk_size, self.row_count))

    def path_of(self, chunk: int) -> Path:
        return self.output / shard_name(chunk)


class Worker:
    """Explains chunks, with the batch size that fits into memory."""

    def __init__(self, job: Job) -> None:
        self.job, self.cursor, self.batch_size = job, Cursor(job.table), job.batch_size
        self.fitted, self.few = job.load(), FirstFew()

    def do(self, chunk: int) -> Tally:
        """Explain a chunk and write its shard."""
        with self.few:
            return self._do(chunk)

    def _do(self, chunk: int) -> Tally:
        span = self.job.rows_of(chunk)
        rows = self.cursor.take(span.start, span.stop)
        examples = [as_example(row, self.fitted, self.job.table.path.parent) for row in rows]
        found: list[Found] = [each if isinstance(each, Bad) else "" for each in examples]
        good = [i for i, each in enumerate(examples) if not isinstance(each, Bad)]
        for i, each in zip(good, self.explained([examples[i] for i in good]), strict=True):
            found[i] = each
        self.fitted.task.forget()
        return write_shard(self.job.path_of(chunk), self.job.run, rows, found)

    def explained(self, examples: Sequence[Any]) -> list[Found]:
        """Explain examples; where one of them cannot be, halve until it stands alone with its error."""
        if not examples:
            return []
        try:
            return self._in_memory(examples)
        except OF_ONE_ROW as error:
            if len(examples) == 1:
                return [str(error)]
        middle = len(examples) // 2
        return self.explained(examples[:middle]) + self.explained(examples[middle:])

    def _in_memory(self, examples: Sequence[Any]) -> list[Found]:
        """Explain examples, in smaller batches where they do not fit; the batches stay small from then on."""
        while True:
            try:
                return self._sorted(examples)
            except (RuntimeError, MemoryError) as error:
                if not is_full(error):
                    raise
                if self.batch_size == 1:
                    raise DiffMaskError(
                        "a worker ran out of memory with a single row at a time: use a larger device, "
                        "a smaller dtype, or shorter texts; what is finished stays"
                    ) from error
            self.batch_size = min(self.batch_size, len(examples)) // 2 or 1
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

    def _sorted(self, examples: Sequence[Any]) -> list[Found]:
        """Explain examples of like length together, so that little is padded, and return them in their order."""
        explain = Explainer(self.fitted, self.job.depth, self.job.certified, self.batch_size)
        lengths = self.fitted.task.lengths(examples)
        if lengths is None:
            return list(explain(examples))
        order = sorted(range(len(examples)), key=lengths.__getitem__)
        found = dict(zip(order, explain([examples[i] for i in order]), strict=True))
        return [found[i] for i in range(len(examples))]


class Bad(str):
    """Why a row holds no example."""


def as_example(row: Row, fitted: Fit, beside: Path) -> Any:
    """Return a row as the task takes it: a text, a pair of them, an image, or why it is none of these."""
    if isinstance(fitted.task, ImageClassification):
        return _image(row.values[0], beside)
    for value in row.values:
        if not isinstance(value, str):
            return Bad(f"no text but {_named(value)}")
        if not value.strip():
            return Bad("the text is empty: there is nothing to explain in it")
    return row.values[0] if len(row.values) == 1 else row.values


def _named(value: Any) -> str:
    return "nothing" if value is None else type(value).__name__


def _image(value: Any, beside: Path) -> Any:
    found = image_of(value, beside) if value != "" else None
    return found if isinstance(found, bytes | Path) else Bad(f"no image but {_named(value)}")


def is_full(error: BaseException) -> bool:
    """Say whether an error means that memory ran out."""
    known = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return known or any(words in str(error).lower() for words in FULL)
