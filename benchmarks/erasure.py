"""How many sets of units exact erasure tries in a second: a recurrent model's tree of choices against plain batches.

Both try sets of a sentence's words and judge the predictions. The tree is walked as a whole; plain enumeration runs
each set from the embeddings on, in the batch size that is fastest here, and is timed on a stretch of the sets, since
each costs the same. The two take turns.

    python -m benchmarks.erasure         # writes results/erasure_speed.json
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import torch

from diffmask.models.word_gru import WordGRU, adapt_word_gru
from diffmask.objective.constraint import Constraint
from diffmask.studies.result import write_result
from diffmask.studies.trained import device
from diffmask.tasks.tensors import TensorTask
from diffmask.training.sharing import Sharing, trial_of
from diffmask.training.trial import Enumeration, Example
from diffmask.types import Categorical

LENGTHS, WIDTH, VOCABULARY, REPEATS = (16, 18, 20), 64, 8000, 5
BATCHES = (128, 256, 512, 1024, 2048, 8192)
STRETCH = 24_000  # sets of the middle size on which enumeration is timed


def make_example(length: int) -> Example:
    """Make one random sentence for a random classifier as large as the study's."""
    torch.manual_seed(length)
    words = torch.randint(2, VOCABULARY, (2, length))
    inputs = {"words": words, "length": torch.full((2,), length)}
    task = TensorTask(inputs, torch.ones_like(words, dtype=torch.bool), lambda out: {"label": Categorical(out.logits)})
    model = adapt_word_gru(WordGRU(VOCABULARY, WIDTH, WIDTH).eval().to(device()))
    baseline = torch.zeros(WIDTH, device=model.device)
    return Example(model, task, task.collate([0]).to(device()), 0, "word embedding", baseline, Constraint(0.001))


def tree_speed(tree: Sharing) -> float:
    """Return sets a second of a walk over all sets."""
    start = time.perf_counter()
    tried = sum(some.count for some in tree.of_sizes(0, tree.example.units))
    return tried / (time.perf_counter() - start)


def plain_speed(plain: Enumeration, sets: int = STRETCH) -> float:
    """Return sets a second of running sets one by one, in batches."""
    start, tried = time.perf_counter(), 0
    for some in plain.of_size(plain.example.units // 2):
        tried += some.count
        if tried >= sets:
            break
    return tried / (time.perf_counter() - start)


def fastest(example: Example) -> Enumeration:
    """Return plain enumeration with the batch size that is fastest on this machine."""
    found = [Enumeration(example, size) for size in BATCHES]
    for plain in found:
        plain_speed(plain, 2 * plain.batch_size)  # it grows to its batch size
    return max(found, key=lambda plain: plain_speed(plain, 8192))


def measure(length: int) -> dict[str, object]:
    """Time both in turns for one sentence."""
    example = make_example(length)
    with torch.no_grad(), example.model.frozen():
        plain, tree = fastest(example), trial_of(example, BATCHES[0])
        assert isinstance(tree, Sharing)
        pairs = [(tree_speed(tree), plain_speed(plain)) for _ in range(REPEATS)]
    ratios = sorted(tree / plain for tree, plain in pairs)
    return {
        "words": length,
        "sets": 2**length,
        "speedup": statistics.median(ratios),
        "low": ratios[0],
        "high": ratios[-1],
        "tree_sets_per_second": statistics.median(tree for tree, _ in pairs),
        "plain_sets_per_second": statistics.median(plain for _, plain in pairs),
        "plain_batch_size": plain.batch_size,
    }


def main() -> None:
    rows = [measure(length) for length in LENGTHS]
    longest = rows[-1]
    summary = {
        "speedup_over_enumeration": min(row["speedup"] for row in rows),  # type: ignore[type-var]
        "tree_sets_per_second": longest["tree_sets_per_second"],
        "plain_sets_per_second": longest["plain_sets_per_second"],
    }
    command = "python -m benchmarks.erasure"
    write_result(Path("results/erasure_speed.json"), "erasure_speed", command, [0], summary, rows, repeats=REPEATS)
    for row in rows:
        print(f"{row['words']} words: {row['speedup']:.1f} × plain enumeration ({row['low']:.1f} to {row['high']:.1f})")


if __name__ == "__main__":
    main()
