"""The Ray engine: Ray Data hands chunks to actors that hold the model; each reads its rows and writes its shards.

Rows and shards do not pass through Ray, so on a cluster every machine must see the input and the output under the same
path. A worker that is killed is started again by Ray, and does its chunk once more: a shard is whole or not there, so
that repeats nothing.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any
from uuid import uuid4

from ..errors import DiffMaskError, SettingError
from .cluster import connected
from .shard import Tally
from .worker import Job, Worker

MOST_BLOCKS = 10_000  # chunks are handed out one by one, or a few at once where there are very many
ATTEMPTS = 3  # a chunk that kills as many workers would kill the next one too


def work(job: Job, chunks: Sequence[int], workers: int | None = None, address: str | None = None) -> Iterator[Tally]:
    """Explain the chunks on the actors of a Ray cluster, or of a local one that ends with the work."""
    with connected(address) as ray, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Ray about itself
        on_cpu = getattr(job.load, "device", None) == "cpu"  # the user wants no GPU
        devices = "GPU" if ray.cluster_resources().get("GPU", 0) and not on_cpu else "CPU"
        count = pool_size(int(ray.cluster_resources().get(devices, 0)), devices, workers, len(chunks))
        for row in _results(ray, job, chunks, count, devices):
            if row["error"]:
                raise DiffMaskError(row["error"])
            yield Tally(**json.loads(row["tally"]))


def _results(ray: Any, job: Job, chunks: Sequence[int], count: int, devices: str) -> Iterator[dict[str, Any]]:
    numbers = ray.data.from_items([{"chunk": n} for n in chunks], override_num_blocks=min(len(chunks), MOST_BLOCKS))
    found = numbers.map_batches(
        Actor,
        batch_size=1,
        fn_constructor_args=(job, uuid4().hex[:8]),
        compute=ray.data.ActorPoolStrategy(size=count),
        num_cpus=1,
        num_gpus=1 if devices == "GPU" else None,
    )
    try:
        yield from found.iter_rows()
    except ray.exceptions.RayError as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise DiffMaskError(f"Ray gave up ({lines[-1].strip()}): run it again, finished shards are kept") from error


class Actor:
    """A worker as Ray Data wants it: called with one chunk's number, it answers with a row that says how it went."""

    def __init__(self, job: Job, session: str) -> None:
        self.job, self.session = job, session
        self.worker: Worker | None = None

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        chunk, tally, error = int(batch["chunk"][0]), "", ""
        try:
            tally = json.dumps(asdict(self.do(chunk)))
        except DiffMaskError as known:
            error = str(known)
        except Exception as other:  # an answer, so that the user reads a sentence and not Ray's traceback
            error = f"a worker failed on {_span(self.job, chunk)} ({type(other).__name__}: {other}); run it again"
        return {"chunk": [chunk], "tally": [tally], "error": [error]}

    def do(self, chunk: int) -> Tally:
        """Do a chunk, unless it has killed several workers before."""
        mark = self.job.output / f".part-{chunk:05d}.{self.session}"
        with mark.open("a+") as file:
            file.write("x")
            file.flush()
            file.seek(0)
            attempts = len(file.read())
        if attempts > ATTEMPTS:
            raise DiffMaskError(
                f"{_span(self.job, chunk)} killed {ATTEMPTS} workers in turn, most likely for want of memory: lower "
                "--batch-size or give each worker more; finished shards are kept"
            )
        self.worker = self.worker or Worker(self.job)  # not earlier: an error here is answered, not thrown
        found = self.worker.do(chunk)
        mark.unlink(missing_ok=True)
        return found


def _span(job: Job, chunk: int) -> str:
    rows = job.rows_of(chunk)
    return f"the chunk of rows {rows.start} to {rows.stop - 1}"


def pool_size(devices: int, kind: str, asked: int | None, chunks: int) -> int:
    """Say how many workers to start: one a GPU, or one a CPU where there are none."""
    if asked is not None and not 1 <= asked <= devices:
        raise SettingError(
            f"{asked} workers were asked for, and this Ray has {devices} {kind}s: ask for 1 to {devices}"
        )
    return min(asked or devices, chunks)
