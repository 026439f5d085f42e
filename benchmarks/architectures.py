"""Which classes of transformers can be explained: every one that a small random model can be made of is asked.

    python -m benchmarks.architectures --jobs 2      # writes results/architectures.json

A class passes if sites are found without help, and at each of them a state replaced by itself changes nothing, another
one changes the same whether the model is run anew or resumed there; if a gradient comes back, and recomputed blocks
give the same one; and if a probe over the inputs and one over hidden states are fitted, for two steps, and explain.
"""

from __future__ import annotations

import argparse
import logging
import resource
import signal
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.models.auto import modeling_auto

from benchmarks.exam import explain_briefly, failures
from benchmarks.small_models import IMAGES, NotBuiltError, build
from diffmask.errors import DiffMaskError
from diffmask.models.adapting import adapt
from diffmask.studies.result import write_result

MAPPINGS = {
    "text classification": "SEQUENCE_CLASSIFICATION",
    "token classification": "TOKEN_CLASSIFICATION",
    "question answering": "QUESTION_ANSWERING",
    "next token": "CAUSAL_LM",
    "text to text": "SEQ_TO_SEQ_CAUSAL_LM",
    IMAGES: "IMAGE_CLASSIFICATION",
}
RESULT = Path("results/architectures.json")
SECONDS, MEMORY = 120, 10 << 30  # that a class may take


@dataclass(frozen=True)
class Asked:
    """One class of transformers, by the name of its configuration, and what it does."""

    name: str
    kind: str
    task: str


def all_classes() -> list[Asked]:
    """List every class of every task that has an example of ours, each once."""
    found: dict[str, Asked] = {}
    for task, mapping in MAPPINGS.items():
        for kind, names in getattr(modeling_auto, f"MODEL_FOR_{mapping}_MAPPING_NAMES").items():
            for name in (names,) if isinstance(names, str) else names:
                found.setdefault(name, Asked(name, kind, task))
    return list(found.values())


def ask(asked: Asked) -> dict[str, Any]:
    """Say what became of one class, and why."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    warnings.simplefilter("ignore")
    logging.getLogger("diffmask").setLevel(logging.ERROR)  # a random model often needs nothing of what it reads
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(SECONDS)
    try:
        outcome, why, sites = examine(asked)
    finally:
        signal.alarm(0)
    return {"class": asked.name, "task": asked.task, "outcome": outcome, "sites": sites, "why": why}


def examine(asked: Asked) -> tuple[str, str, int]:
    """Build a small model of a class, and put it to the exam."""
    try:
        model, batch = build(asked.name, asked.kind, asked.task)
    except (NotBuiltError, TimeoutError) as error:
        return "not built", str(error), 0
    try:
        adapter = adapt(model, example=None if asked.task == IMAGES else batch)
        explain_briefly(adapter, batch)  # first: it refuses in a sentence what the rest would fail at
        wrong = next(failures(adapter, batch), None)
    except DiffMaskError as error:
        return "refused", str(error), 0
    except Exception as error:
        if isinstance(error, TimeoutError) or "can't allocate memory" in str(error):
            return "not built", "too large or too slow on this machine", 0
        return "fails", f"{type(error).__name__}: {error}"[:160], 0
    return ("passes", "", len(adapter.sites)) if wrong is None else ("fails", wrong, len(adapter.sites))


def _too_long(*_: Any) -> None:
    raise TimeoutError(f"took more than {SECONDS} seconds")


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Count what became of the classes, of all and of each task."""
    counts = {task: dict(Counter(row["outcome"] for row in rows if row["task"] == task)) for task in MAPPINGS}
    return {"classes": len(rows), **dict(Counter(row["outcome"] for row in rows)), "tasks": counts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--output", type=Path, default=RESULT)
    parser.add_argument("--only", nargs="*", help="names of classes")
    options = parser.parse_args()
    if options.jobs < 1:
        parser.error(f"--jobs must be at least 1, got {options.jobs}")
    if unknown := set(options.only or ()) - {asked.name for asked in all_classes()}:
        parser.error(f"no class for our tasks is named {', '.join(sorted(unknown))}: write its whole name")
    if options.only and options.output == RESULT:
        parser.error("--only asks about some classes: give another --output, or the result of all would be lost")
    classes = [asked for asked in all_classes() if not options.only or asked.name in options.only]
    rows = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for number, row in enumerate(pool.map(ask, classes), 1):
            rows.append(row)
            print(f"{number}/{len(classes)} {row['class']}: {row['outcome']} {row['why'][:120]}", flush=True)
    command = "python -m benchmarks.architectures"
    write_result(options.output, "architectures", command, [0], summarise(rows), rows)


if __name__ == "__main__":
    main()
