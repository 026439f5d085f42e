"""Run a study seed by seed, several at a time, keeping what is finished."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch

from ..errors import DataError
from ..provenance import commit, hardware, versions
from ..storage import write_file

SeedRun = Callable[[int], dict[str, Any]]


def run_seeds(
    run: SeedRun,
    seeds: Sequence[int],
    directory: Path,
    settings: str,
    jobs: int,
    take_over: bool = False,
    partial: bool = False,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each seed's result as it is ready; one that this code made with these settings is not run again.

    To `take_over` is to use what is there whatever made it, e.g. on another machine: `made_with` says what did. With 0
    `jobs` nothing more is run, for a study that can sum up a `partial` set of its runs.
    """
    now = {"settings": settings, "commit": commit(), "versions": versions(), "hardware": hardware()}
    todo = []
    for seed in seeds:
        saved = _load(_file(directory, seed), None if take_over else now)
        if saved is not None:
            yield seed, saved
        else:
            todo.append(seed)
    if todo and not jobs and not (partial and len(todo) < len(seeds)):
        raise DataError(
            f"{len(todo)} of {len(seeds)} runs are not finished, and --jobs 0 runs nothing: finish them with --jobs 1"
        )
    yield from _run(_Seed(run, directory, now), todo, jobs)


def made_with(directory: Path, seeds: int | Sequence[int]) -> list[dict[str, Any]]:
    """Return the settings, commits, versions and machines that made the finished runs, each once."""
    found: list[dict[str, Any]] = []
    for number in range(seeds) if isinstance(seeds, int) else seeds:
        saved = json.loads(_file(directory, number).read_text())
        saved.pop("result")
        found += [saved] if saved not in found else []
    return found


def with_makers(directory: Path, done: Mapping[int, Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return finished runs, each with its number and with who made it, as `lay_out` reads them again."""
    makers, jobs = made_with(directory, sorted(done)), list[dict[str, Any]]()
    for number in sorted(done):
        (maker,) = made_with(directory, [number])
        jobs.append({**done[number], "number": number, "made_by": makers.index(maker)})
    return {"jobs": jobs, "made_with": makers}


def lay_out(directory: Path, path: Path) -> None:
    """Write the finished runs of a result file into a directory that has not got them: a study can go on from there."""
    jobs = _jobs(path)
    makers = json.loads(path.read_text())["made_with"] if jobs else []
    for job in jobs:
        number, maker = job.pop("number"), job.pop("made_by")
        if not _file(directory, number).is_file():
            write_file(_file(directory, number), json.dumps({**makers[maker], "result": job}).encode())


def check_own(directory: Path, number: int, found: object, wanted: object) -> None:
    """Refuse what was taken over of another job: with another number of seeds, jobs have other numbers."""
    if found != wanted:
        raise DataError(
            f"run {number} in {directory} is another's ({found}): take over with as many seeds as it was made with, or "
            "remove it"
        )


def keep_fuller(path: Path, finished: int) -> None:
    """Refuse to put the result of fewer runs in the place of one of more."""
    there = len(_jobs(path))
    if finished < there:
        raise DataError(
            f"{path} has {there} finished runs, and {finished} would take their place: use those too with --take-over, "
            "or choose another --output"
        )


def _jobs(path: Path) -> list[dict[str, Any]]:
    """Return the numbered runs of a result file; of anything else, none."""
    try:
        found = json.loads(path.read_text())["jobs"]
        return [job for job in found if "number" in job]
    except (OSError, ValueError, TypeError, KeyError):
        return []


class _Seed:
    """Runs one seed and writes its file at once, so that another seed's failure does not lose it."""

    def __init__(self, run: SeedRun, directory: Path, made_with: dict[str, Any]) -> None:
        self.run, self.directory, self.made_with = run, directory, made_with

    def __call__(self, seed: int) -> dict[str, Any]:
        result = self.run(seed)
        write_file(_file(self.directory, seed), json.dumps({**self.made_with, "result": result}).encode())
        return result


def _file(directory: Path, seed: int) -> Path:
    return directory / f"seed-{seed:03d}.json"


def _load(path: Path, made_with: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a saved result, unless it is missing, cut off, or made by other code or settings."""
    try:
        saved = dict(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None
    result = saved.pop("result", None)
    return result if made_with in (None, saved) else None


def _run(run: SeedRun, seeds: Sequence[int], jobs: int) -> Iterator[tuple[int, dict[str, Any]]]:
    if jobs < 2:
        for seed in seeds if jobs else ():
            yield seed, run(seed)
        return
    context, others = multiprocessing.get_context("spawn"), set(multiprocessing.active_children())
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        futures = {pool.submit(run, seed): seed for seed in seeds}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in set(multiprocessing.active_children()) - others:
                worker.terminate()  # or it would go on for long with what nobody waits for any more
            raise
