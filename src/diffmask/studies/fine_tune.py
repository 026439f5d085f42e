"""Train a Hugging Face model, or any model whose forward computes its own loss, the same way for the same seed."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from ..errors import DataError, ModelError, SettingError
from ..training.random import batch_indices

Encode = Callable[[list[int]], Mapping[str, Tensor]]
Progress = Callable[[int, int, float], None]


@dataclass(frozen=True)
class FineTuneConfig:
    """How a model is trained: AdamW with a warm-up and a half cosine down to 0."""

    epochs: Annotated[int, "passes over the examples"] = 4
    batch_size: Annotated[int, "rows per step"] = 32
    learning_rate: Annotated[float, "its highest value, right after the warm-up"] = 5e-5
    warmup: Annotated[float, "share of the steps over which the learning rate rises"] = 0.1
    weight_decay: Annotated[float, "of matrices and embeddings; biases and norms have none"] = 0.01
    clip: Annotated[float, "largest norm of a gradient"] = 1.0
    seed: Annotated[int, "the order of the rows and the dropout depend on it alone"] = 0
    bf16: Annotated[bool, "compute in bfloat16 where that is safe; the weights stay in float32"] = False

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "learning_rate", "clip"):
            if not getattr(self, name) > 0:
                raise SettingError(f"{name} must be positive, got {getattr(self, name)}")
        if not 0 <= self.warmup < 1:
            raise SettingError(f"warmup must lie in [0, 1), got {self.warmup}: it is a share of the steps")
        if self.weight_decay < 0:
            raise SettingError(f"weight_decay must be 0 or more, got {self.weight_decay}")


@dataclass(frozen=True)
class FineTuned:
    """What came of a training: the mean loss of each epoch, its scores, and the epoch whose weights were kept."""

    losses: tuple[float, ...]
    scores: tuple[float, ...]
    epoch: int

    @property
    def score(self) -> float | None:
        """The score of the epoch that was kept, where epochs were scored."""
        return self.scores[self.epoch] if self.scores else None


def fine_tune(
    model: nn.Module,
    encode: Encode,
    count: int,
    config: FineTuneConfig,
    *,
    lengths: Sequence[int] | None = None,
    evaluate: Callable[[], float] | None = None,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> FineTuned:
    """Train `model` in place on rows 0 to `count`, and leave it in evaluation mode on `device`.

    `encode` turns rows into the arguments of the model, labels included. With the `lengths` of the rows, rows of like
    length share a batch. `evaluate` scores the model after each epoch;
    the first epoch with the highest score is kept, or else the last. `progress` hears step, steps and loss.
    """
    if count < 1:
        raise DataError("there are no examples to train on: check what the data set was filtered by")
    device = torch.device(device)
    model.to(device)
    batches = batch_indices(count, config.batch_size, config.seed, lengths=lengths)
    trainer = _Trainer(model, map(encode, batches), max(1, count // config.batch_size), config, device, progress)
    losses, scores, best = [], [], None
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(config.seed)
        for epoch in range(config.epochs):
            losses.append(trainer.run_epoch())
            if evaluate is None:
                continue
            scores.append(_score(model, evaluate))
            if scores[-1] > max(scores[:-1], default=-math.inf):
                best = (epoch, copy.deepcopy(model.state_dict()))
    if best is not None:
        model.load_state_dict(best[1])
    model.eval()
    return FineTuned(tuple(losses), tuple(scores), best[0] if best else config.epochs - 1)


class _Trainer:
    """Holds what lives from epoch to epoch: the stream of batches, the optimiser and its schedule."""

    def __init__(
        self,
        model: nn.Module,
        batches: Iterator[Mapping[str, Tensor]],
        epoch_steps: int,
        config: FineTuneConfig,
        device: torch.device,
        progress: Progress | None,
    ) -> None:
        self.model, self.batches, self.config, self.device, self.progress = model, batches, config, device, progress
        self.epoch_steps, self.steps, self.step = epoch_steps, config.epochs * epoch_steps, 0
        self.optimizer = torch.optim.AdamW(_groups(model, config.weight_decay), lr=config.learning_rate, fused=True)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self._rate)

    def run_epoch(self) -> float:
        """Train for one epoch and return its mean loss."""
        self.model.train()
        return sum(self._run_step() for _ in range(self.epoch_steps)) / self.epoch_steps

    def _run_step(self) -> float:
        batch = {name: value.to(self.device) for name, value in next(self.batches).items()}
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.bf16):
            loss = _loss(self.model(**batch))
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
        self.optimizer.step()
        self.schedule.step()
        self.step += 1
        value = float(loss.detach())
        if not math.isfinite(value):
            raise ModelError(
                f"the loss is {value} at step {self.step}: lower learning_rate, now {self.config.learning_rate:.1e}"
            )
        if self.progress is not None:
            self.progress(self.step, self.steps, value)
        return value

    def _rate(self, step: int) -> float:
        """Rise in a straight line over the warm-up, then fall along a half cosine to 0."""
        warmup = self.config.warmup * self.steps
        if step < warmup:
            return (step + 1) / (warmup + 1)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warmup) / max(1.0, self.steps - warmup))))


def _groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Decay matrices only: a bias or the scale of a norm at 0 is no simpler than elsewhere."""
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    return [
        {"params": [weight for weight in trained if weight.ndim > 1], "weight_decay": weight_decay},
        {"params": [weight for weight in trained if weight.ndim <= 1], "weight_decay": 0.0},
    ]


def _loss(output: Any) -> Tensor:
    loss = getattr(output, "loss", None)
    if loss is None:
        raise ModelError(
            f"the model returned {type(output).__name__} without a loss: let encode give it labels, "
            "or wrap it so that its output has a field 'loss'"
        )
    return loss


def _score(model: nn.Module, evaluate: Callable[[], float]) -> float:
    """Score the model as it will be used: without dropout and without gradients."""
    model.eval()
    with torch.no_grad():
        return evaluate()
