"""Run a study seed by seed, several at a time, keeping what is finished."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch

from ..storage import write_file

SeedRun = Callable[[int], dict[str, Any]]


def run_seeds(run: SeedRun, seeds: Sequence[int], directory: Path, jobs: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each seed's result as it is ready; a seed whose file is already in `directory` is not run again."""
    todo = []
    for seed in seeds:
        path = _file(directory, seed)
        if path.exists():
            yield seed, json.loads(path.read_text())
        else:
            todo.append(seed)
    for seed, result in _run(run, todo, jobs):
        write_file(_file(directory, seed), json.dumps(result).encode())
        yield seed, result


def _file(directory: Path, seed: int) -> Path:
    return directory / f"seed-{seed:03d}.json"


def _run(run: SeedRun, seeds: Sequence[int], jobs: int) -> Iterator[tuple[int, dict[str, Any]]]:
    if jobs == 1:
        for seed in seeds:
            yield seed, run(seed)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        futures = {pool.submit(run, seed): seed for seed in seeds}
        for future in as_completed(futures):
            yield futures[future], future.result()
