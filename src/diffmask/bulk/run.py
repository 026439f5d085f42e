"""Explain a whole file: plan the chunks, let an engine work on those that are missing, count what is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from ..errors import SettingError, StorageError
from ..explaining.explain import check_depth
from ..storage import file_hash
from ..tasks.images import ImageClassification
from ..training.fit import Fit
from . import ENGINES
from .manifest import (
    MANIFEST,
    check_no_others,
    check_same,
    mark_finished,
    probe_hash,
    read_manifest,
    run_name,
    write_manifest,
)
from .rows import Table
from .shard import Tally, arrow, read_tally
from .worker import Job, Saved

CHUNK = 512


@dataclass(frozen=True)
class BulkConfig:
    """What is explained of a file, and how."""

    text_column: Annotated[str, "the column of the text, or of the first of a pair"] = "text"
    pair_column: Annotated[str, "the column of the second text of a pair; empty for single texts"] = ""
    image_column: Annotated[str, "the column of images or their paths, relative to the file"] = "image"
    id_column: Annotated[str, "a column that names the rows, copied into the shards; empty for none"] = ""
    depth: Annotated[int | str, "a number, which may count from the end, or a site's name"] = -1
    certified: Annotated[bool, "add units back until the margin holds"] = False
    batch_size: Annotated[int, "rows explained at once; less where memory runs out"] = 64
    chunk_size: Annotated[int, f"rows of one shard; 0 takes {CHUNK}, or what a run began with"] = 0

    def __post_init__(self) -> None:
        if self.batch_size < 1 or self.chunk_size < 0:
            raise SettingError(
                f"batch_size must be at least 1 and chunk_size at least 0, got {self.batch_size} and {self.chunk_size}"
            )


@dataclass(frozen=True)
class Plan:
    """A job, what is done of it already, and who does the rest."""

    job: Job
    done: dict[int, Tally]
    engine: str
    workers: int | None
    address: str | None

    @property
    def missing(self) -> list[int]:
        return [chunk for chunk in range(self.job.chunk_count) if chunk not in self.done]

    def work(self) -> Iterator[Tally]:
        """Explain the missing chunks; every finished one is on disk when its tally is yielded."""
        if missing := self.missing:
            yield from ENGINES.get(self.engine)(self.job, missing, self.workers, self.address)

    def finish(self) -> Tally:
        """Check that every row is there exactly once, tidy up, and return what was found in all of them."""
        found = [read_tally(self.job.path_of(chunk), self.job.run) for chunk in range(self.job.chunk_count)]
        total = sum(found, Tally())
        if total.rows != self.job.row_count:
            raise StorageError(f"{self.job.output} holds {total.rows} rows of {self.job.row_count}: run it again")
        for pattern in (".part-*", f".{MANIFEST}.*"):  # of processes that were killed while they wrote
            for left in self.job.output.glob(pattern):
                left.unlink(missing_ok=True)
        mark_finished(self.job.output, asdict(total))
        return total


def explain_file(
    fitted: Fit | Callable[[], Fit] | str,
    source: str | Path,
    output: str | Path,
    config: BulkConfig | None = None,
    *,
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
) -> Tally:
    """Explain every row of a .parquet, .csv, .tsv, .jsonl or .txt file into a directory of Parquet shards.

    `fitted` may be the name of a saved probe, or a function that loads one, which each worker then calls. Stopped, the
    same call goes on where it was: no row is lost or repeated.
    """
    plan = make_plan(fitted, source, output, config, engine=engine, workers=workers, address=address)
    for _ in plan.work():
        pass
    return plan.finish()


def make_plan(
    fitted: Fit | Callable[[], Fit] | str,
    source: str | Path,
    output: str | Path,
    config: BulkConfig | None = None,
    *,
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
) -> Plan:
    """Check everything that can be checked before the work begins, and see what is done already."""
    arrow()
    ENGINES.get(engine)
    config, output, source = config or BulkConfig(), Path(output).absolute(), Path(source).absolute()
    there = read_manifest(output)
    load, here = _loaders(Saved(fitted) if isinstance(fitted, str) else fitted, engine)
    table = _table(source, config, here)
    identity = _identity(table, config, here, there)
    if there is not None:
        check_same(output, there["identity"], identity)
    job = Job(
        *(load, table, identity["rows"], output, run_name(identity), identity["depth"], config.certified),
        *(config.batch_size, identity["chunk_size"]),
    )
    check_no_others(output, {job.path_of(n).name for n in range(job.chunk_count)})
    done = {n: read_tally(job.path_of(n), job.run) for n in range(job.chunk_count) if job.path_of(n).exists()}
    if there is None:
        write_manifest(output, identity, {"input": str(source), "settings": asdict(config)})
    return Plan(job, done, engine, workers, address)


def _loaders(fitted: Fit | Callable[[], Fit], engine: str) -> tuple[Callable[[], Fit], Fit]:
    """Return how a worker gets the model, and the model as it is needed here, to plan."""
    if isinstance(fitted, Fit):
        return Given(fitted), fitted
    if engine == "local":
        here = fitted()
        return Given(here), here
    # The GPUs are for the workers.
    return fitted, (replace(fitted, device="cpu") if isinstance(fitted, Saved) else fitted)()


@dataclass(frozen=True)
class Given:
    """A model that is loaded already; sent to another process, it travels with its weights."""

    fitted: Fit

    def __call__(self) -> Fit:
        return self.fitted


def _table(source: Path, config: BulkConfig, fitted: Fit) -> Table:
    pair = (config.pair_column,) if config.pair_column else ()
    images = isinstance(fitted.task, ImageClassification)
    return Table(source, (config.image_column,) if images else (config.text_column, *pair), config.id_column)


def _identity(table: Table, config: BulkConfig, fitted: Fit, there: dict[str, Any] | None) -> dict[str, Any]:
    """Say what makes two runs write the same shards."""
    began_with = there["identity"].get("chunk_size") if there else None
    count = table.count()  # first: it says what is wrong with a file
    return {
        "input": file_hash(table.path),
        "rows": count,
        "columns": list(table.columns),
        "id_column": table.id_column,
        "model": fitted.fingerprint,
        "probe": probe_hash(fitted),
        "depth": check_depth(fitted.probe, config.depth),
        "certified": config.certified,
        "strict": bool(getattr(fitted.task, "strict", False)),
        "chunk_size": config.chunk_size or began_with or CHUNK,
    }
