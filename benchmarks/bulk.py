"""Rows a second of bulk explanation, shards and all, against explaining the same texts in one call in this process.

Both do the same work: the embedded model, texts of mixed length, every explanation verified. `bulk_over_local` is like
for like: Ray with one worker against a call with one thread. `ray_all` has a worker for each core, beside it the call
with as many threads. Starting Ray's workers and the model in them is not in the warm figures; `with_start` has it, but
for starting Ray itself, which is timed on its own. Length sorting is part of bulk explanation and helps it a little.

    python -m benchmarks.bulk            # writes results/bulk.json
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

import diffmask
from diffmask.bulk.cluster import connected
from diffmask.bulk.run import make_plan
from diffmask.studies.result import write_result
from diffmask.training.fit import Fit

ROWS, CHUNK, REPEATS, CORES = 6144, 512, 3, os.cpu_count() or 1  # chunks as large as they are by default
WARM = 2  # chunks of each worker before the clock starts: it has its model by then
WORDS = ["the", "film", "was", "really", "good", "but", "also", "long", "and", "not", "at", "all", "funny", "fast"]


def texts(count: int) -> list[str]:
    """Make texts of 4 to 48 words, each another, so that nothing is remembered."""
    words = ([WORDS[(i * 7 + k * (1 + i % 5)) % len(WORDS)] for k in range(3 + i % 45)] for i in range(count))
    return [f"{i} {' '.join(each)}" for i, each in enumerate(words)]


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def local_call(fitted: Fit, given: list[str], threads: int) -> float:
    """Return rows a second of one call of `diffmask.explain` on a list."""
    torch.set_num_threads(threads)
    fitted.task.forget()
    diffmask.explain(fitted, given[:64])
    return len(given) / seconds(lambda: diffmask.explain(fitted, given))


def bulk(fitted: Fit, place: Path, engine: str, workers: int | None = None) -> tuple[float, float]:
    """Return rows a second once every worker is warm, and over the whole run with the start of the workers."""
    skip = WARM * (workers or 1)
    source, count = place / "data.jsonl", ROWS + skip * CHUNK
    source.write_text("\n".join(json.dumps({"text": text}) for text in texts(count)))
    config = diffmask.BulkConfig(chunk_size=CHUNK)
    with tempfile.TemporaryDirectory(dir=place) as output:
        load = fitted if engine == "local" else "embedded"
        plan = make_plan(load, source, output, config, engine=engine, workers=workers)
        whole = count / seconds(lambda: [*plan.work(), plan.finish()])
        # When shards were written, not when Ray told of them: it tells of several at once.
        times = sorted(path.stat().st_mtime for path in Path(output).glob("part-*"))
    return ROWS / (times[-1] - times[skip - 1]), whole


def turn(fitted: Fit, given: list[str], place: Path) -> dict[str, float]:
    """Measure everything once, one after the other, so that whatever else the machine does meets all alike."""
    found = {"threads": local_call(fitted, given[:512], CORES), "call": local_call(fitted, given, 1)}
    found["local"], _ = bulk(fitted, place, "local")
    found["ray_one"], found["ray_one_with_start"] = bulk(fitted, place, "ray", 1)
    found["ray_all"], found["ray_all_with_start"] = bulk(fitted, place, "ray", CORES)
    print({name: round(value) for name, value in found.items()}, flush=True)
    return found


def main() -> None:
    fitted, given, began = diffmask.load_embedded(), texts(ROWS), time.perf_counter()
    with tempfile.TemporaryDirectory() as place, connected("local"):
        start = time.perf_counter() - began
        rows = [turn(fitted, given, Path(place)) for _ in range(REPEATS)]
    ratios = {name: [each[name] / each["call"] for each in rows] for name in rows[0] if name != "call"}
    summary = {f"{name}_over_call": statistics.median(values) for name, values in ratios.items()}
    summary |= {"bulk_over_local": summary["ray_one_over_call"], "ray_start_seconds": start, "cores": CORES}
    write_result(Path("results/bulk.json"), "bulk", "python -m benchmarks.bulk", [0], summary, rows)
    for name, values in ratios.items():
        print(f"{name:>20}  {statistics.median(values):.2f} × the call  ({min(values):.2f} to {max(values):.2f})")


if __name__ == "__main__":
    main()
