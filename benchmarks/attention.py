"""How long it takes to measure the attention of a classifier on a thousand test sentences of the sentiment treebank.

    python -m benchmarks.attention --data DIR      # DIR holds sst/; writes results/attention_cost.json

Four measures of importance with their entropies and agreements, permuted and uniform weights, the exact adversary, and
Jain and Wallace's search for one, which is longest. The classifier is trained for one epoch: a measure costs the same.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from diffmask.attention.attacks import SearchConfig, exact_adversary, search_adversary
from diffmask.attention.evidence import gather_evidence
from diffmask.attention.importance import measure_importance
from diffmask.attention.measures import measure_robustness, permutation_changes
from diffmask.attention.presets import meister
from diffmask.studies.attentive import AttentiveSize, pool_vectors, prepare, train_preset
from diffmask.studies.result import write_result

OUTPUT = Path("results/attention_cost.json")
SIZE = AttentiveSize(datasets=("sst",), epochs=1)
MOST_SECONDS = 60.0  # what issue 6 asks for


def parts(encoder: str, projection: str, data: Any) -> dict[str, Callable[[], object]]:
    """Return what is timed on one classifier."""
    preset = meister(len(data.task.vocabulary), encoder, 0, projection=projection)  # type: ignore[arg-type]
    model, _ = train_preset(preset, data, SIZE, 0)
    documents = data.measured(SIZE)
    evidence = gather_evidence(model, data.task, documents)
    return {
        "importance, entropies and agreement": partial(measure_importance, model, data.task, documents),
        "evidence": partial(gather_evidence, model, data.task, documents),
        "permuted and uniform": partial(measure_robustness, evidence, seed=0),
        "permutations": partial(permutation_changes, evidence, seed=0),
        "exact adversary": partial(exact_adversary, evidence),
        "searched adversary": partial(search_adversary, evidence, SearchConfig(seed=0)),
    }


def rows_of(encoder: str, projection: str, data: Any) -> list[dict[str, Any]]:
    found = []
    for name, run in parts(encoder, projection, data).items():
        start = time.perf_counter()
        run()
        found.append(
            {"encoder": encoder, "projection": projection, "part": name, "seconds": time.perf_counter() - start}
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, help="a directory that holds sst/")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    given = parser.parse_args()
    with TemporaryDirectory() as place:
        pool = pool_vectors(given.data, SIZE, Path(place) / "vectors.safetensors")
        data = prepare("sst", given.data, SIZE, pool)
        settings = [(e, p) for e in ("bilstm", "transformer") for p in ("softmax", "sparsemax")]
        rows = [row for setting in settings for row in rows_of(*setting, data)]
    sums = {
        f"{e}, {p}": sum(r["seconds"] for r in rows if (r["encoder"], r["projection"]) == (e, p)) for e, p in settings
    }
    summary = {
        "sentences": len(data.measured(SIZE)),
        "threads": torch.get_num_threads(),
        "seconds": sums,
        "within_a_minute": max(sums.values()) <= MOST_SECONDS,
    }
    write_result(given.output, "attention-cost", "python -m benchmarks.attention --data DIR", [0], summary, rows)
    print(*(f"{name}: {seconds:.1f} s" for name, seconds in sums.items()), sep="\n")


if __name__ == "__main__":
    main()
