"""Fit a probe: find, once per model, what its predictions can do without."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelerate import Accelerator

from ..errors import DataError, SettingError
from ..gates.probe import Probe
from ..models.adapter import Adapter, check_vocabulary
from ..tasks.task import Task
from .bar import Bar
from .config import FitConfig, recipe
from .trainer import Trainer
from .validate import DepthScore

CHECKPOINT = "checkpoint.safetensors"


@dataclass(frozen=True)
class Fit:
    """A fitted probe with what it belongs to, how good it is at each depth without noise, and how it got there."""

    model: Adapter
    task: Task
    probe: Probe
    config: FitConfig
    scores: list[DepthScore]
    restarts: list[int]
    history: list[dict[str, Any]]
    fingerprint: str

    @property
    def feasible(self) -> bool:
        """Whether the thresholded masks hold the constraint at every depth."""
        return all(score.feasible(self.config.objective) for score in self.scores)


def fit(
    model: Adapter,
    task: Task,
    config: FitConfig | str | None = None,
    *,
    directory: str | Path | None = None,
    progress: bool = False,
) -> Fit:
    """Fit a probe to a frozen model; `config` may be the name of a recipe.

    With a `directory`, the state is written there as it goes; the same call after a crash or a kill goes on from it
    and ends with the same weights. The model is as it was, and where it was, when this returns.
    """
    settings = config if isinstance(config, FitConfig) else recipe(config or "default")
    check_fit(model, task)
    # Mixed precision and accumulation are the user's for their own training: gates need float32 and every step.
    accelerator = Accelerator(mixed_precision="no", gradient_accumulation_steps=1)
    if accelerator.num_processes > 1:
        raise SettingError("fit runs in one process for now: start it without `accelerate launch --num_processes`")
    checkpoint = None if directory is None else Path(directory) / CHECKPOINT
    home = model.device
    with model.frozen(), model.on(accelerator.device), Bar("fit", settings.steps, progress) as bar:
        run, scores = Trainer(model, task, settings, accelerator, checkpoint).run_to_end(bar)
    now, probe = run.progress, run.probe.to(home)
    return Fit(model, task, probe, settings, scores, now.restarts, now.history, run.fingerprint)


def check_fit(model: Adapter, task: Task) -> None:
    """Refuse what cannot be fitted, before anything runs."""
    if not isinstance(model, Adapter):
        raise SettingError(f"fit takes an adapted model, got {type(model).__name__}: pass diffmask.adapt(model)")
    if not isinstance(task, Task):
        raise SettingError(f"fit takes a task, got {type(task).__name__}: wrap tensors in diffmask.TensorTask")
    if (tokenizer := getattr(task, "tokenizer", None)) is not None:
        check_vocabulary(model.model, tokenizer)
    if len(task.train) == 0 or len(task.validation) == 0:
        raise DataError("a fit needs at least one training and one validation example")
