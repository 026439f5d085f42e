"""How long a person waits for the first explanation: `diffmask explain "…"` from cold, and what our own imports add.

Our own imports are all that is imported outside of torch and transformers: diffmask itself and every other package it
needs. What either of the two imports on its way counts as theirs.

    python -m benchmarks.cold_start      # writes results/cold_start.json
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from diffmask.studies.result import write_result

TEXT = "A fast, funny, highly enjoyable movie."
COMMAND = [sys.executable, "-m", "diffmask", "explain", TEXT]
LINE = re.compile(r"import time:\s*(\d+) \|\s*(\d+) \| ( *)(\S+)")
THEIRS = ("torch", "transformers")
REPEATS = 7
MOST_SECONDS, MOST_IMPORTS = 6.0, 0.5  # what issue 7 asks for


@dataclass(frozen=True)
class Import:
    """One line of `-X importtime`: a module, how deep in the imports of others, and its own and its whole time."""

    name: str
    level: int
    own: float
    whole: float


def parse(report: str) -> list[Import]:
    """Read the report, in which a module stands after all that it imports."""
    found = LINE.findall(report)
    return [Import(name, len(indent) // 2, int(own) / 1e6, int(whole) / 1e6) for own, whole, indent, name in found]


def ours(imports: list[Import]) -> Iterator[Import]:
    """Yield the imports that happen outside of torch and transformers."""
    inside: int | None = None  # the level of the import of theirs that we are in
    for each in reversed(imports):  # backwards, a module stands before what it imports
        if inside is not None and each.level > inside:
            continue
        inside = each.level if each.name.split(".")[0] in THEIRS else None
        if inside is None:
            yield each


def by_package(imports: list[Import]) -> dict[str, float]:
    """Add up the own times of our imports by package."""
    sums: Counter[str] = Counter()
    for each in ours(imports):
        sums[each.name.split(".")[0]] += each.own
    return dict(sums.most_common())


def seconds() -> float:
    """Time the command as a person sees it, from Enter to the prompt."""
    start = time.perf_counter()
    subprocess.run(COMMAND, check=True, capture_output=True)
    return time.perf_counter() - start


def imports() -> dict[str, float]:
    """Run the command once more and return the times of our imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *COMMAND[1:]], check=True, capture_output=True, text=True
    )
    return by_package(parse(done.stderr))


def summarise(times: list[float], packages: list[Mapping[str, float]]) -> dict[str, float | bool]:
    """Give medians: one slow start says more about the machine than about us."""
    own = [sum(each.values()) for each in packages]
    total, imported = statistics.median(times), statistics.median(own)
    alone = statistics.median(each.get("diffmask", 0.0) for each in packages)
    return {
        "seconds": total,
        "seconds_highest": max(times),
        "own_imports": imported,
        "diffmask_alone": alone,
        "within_limits": total < MOST_SECONDS and imported < MOST_IMPORTS,
    }


def main() -> None:
    seconds()  # the first one reads everything from disk into memory
    times, packages = [seconds() for _ in range(REPEATS)], [imports() for _ in range(REPEATS)]
    summary = summarise(times, packages)
    rows = [
        {"package": name, "seconds": statistics.median(each.get(name, 0.0) for each in packages)}
        for name in packages[0]
        if packages[0][name] >= 1e-3
    ]
    load = os.getloadavg()[0]
    write_result(
        Path("results/cold_start.json"),
        "cold_start",
        "python -m benchmarks.cold_start",
        [0],
        summary | {"load": load},
        rows,
    )
    print(summary)


if __name__ == "__main__":
    main()
