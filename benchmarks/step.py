"""What one training step costs, as a multiple of the model's plain forward pass on the same batch.

The reference code pays five forward passes a step (two original, two masked, one backward). One original and one
masked pass and one backward to the activations are enough for inputs; at a hidden site the masked pass starts there.

    python -m benchmarks.step            # writes results/step_cost.json
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from diffmask.gates.probe import ProbeConfig, make_probe
from diffmask.models.adapter import Adapter, adapt
from diffmask.objective.objective import Objective, ObjectiveConfig
from diffmask.studies.result import write_result
from diffmask.tasks.tensors import TensorTask
from diffmask.training.step import look, step

WIDTH, LAYERS, HEADS, UNITS, BATCH, REPEATS = 384, 6, 12, 32, 32, 15  # the shape of MiniLM


class Encoder(nn.Module):
    """A transformer encoder with a classifier on the mean state."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1000, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.answer = nn.Linear(WIDTH, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.answer(self.encoder(self.embedding(tokens)).mean(1))


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def step_runner(model: Adapter, task: TensorTask, kind: str, depth: int) -> Callable[[], object]:
    """Return one whole training step: look, vote, mask, run again, backward."""
    probe = make_probe(model.sites.names, [WIDTH] * len(model.sites), ProbeConfig(kind=kind))  # type: ignore[arg-type]
    objective = Objective(ObjectiveConfig(), probe.depth_count)
    batch, noise = task.collate(task.train[:BATCH]), torch.Generator().manual_seed(0)

    def run() -> None:
        seen = look(model, task, batch)
        (loss,) = step(seen, probe, objective, [depth], progress=[0.5], generator=noise)
        probe.zero_grad()
        loss.total.backward()  # type: ignore[no-untyped-call]

    return run


def main() -> None:
    torch.manual_seed(0)
    model = adapt(Encoder())
    tokens = torch.randint(0, 1000, (2 * BATCH, UNITS))
    task = TensorTask({"tokens": tokens}, torch.ones_like(tokens, dtype=torch.bool), validation_count=BATCH)
    batch = task.collate(task.train[:BATCH])
    last = len(model.sites) - 1
    runs = {"input, last depth": ("input", last)} | {f"hidden, depth {d}": ("hidden", d) for d in range(last + 1)}
    with model.frozen():
        steps = {name: step_runner(model, task, *which) for name, which in runs.items()}
        rows = measure(lambda: look(model, task, batch), lambda: model(batch), steps)
    hidden = [row["ratio"] for row in rows if row["step"].startswith("hidden")]
    summary = {
        "input_step": next(row["ratio"] for row in rows if row["step"].startswith("input")),
        "hidden_step": statistics.mean(hidden),
        "capture": next(row["ratio"] for row in rows if row["step"] == "capture only"),
    }
    write_result(Path("results/step_cost.json"), "step_cost", "python -m benchmarks.step", [0], summary, rows)
    for row in rows:
        print(f"{row['step']:>20}  {row['ratio']:.2f} × forward  ({row['low']:.2f} to {row['high']:.2f})")


def measure(
    capture: Callable[[], object], plain: Callable[[], object], steps: dict[str, Callable[[], object]]
) -> list[dict[str, object]]:
    """Time every run beside a plain pass, in turns, and return ratios of the two."""
    everything = {"capture only": capture, **steps}
    ratios: dict[str, list[float]] = {name: [] for name in everything}
    with torch.no_grad():
        plain()
    for _ in range(REPEATS):
        for name, run in everything.items():
            with torch.no_grad():
                forward = seconds(plain)
            ratios[name].append(seconds(run) / forward)
    return [
        {
            "step": name,
            "ratio": statistics.median(r),
            "low": sorted(r)[len(r) // 4],
            "high": sorted(r)[-1 - len(r) // 4],
        }
        for name, r in ratios.items()
    ]


if __name__ == "__main__":
    main()
