"""Train an attentive classifier, the same way for the same seed, and keep the epoch that does best on dev documents.

Adam with amsgrad as Jain and Wallace (2019); the attention is not decayed and may learn at another rate.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import DataError, ModelError, SettingError
from ..tasks.documents import Document, DocumentTask, check_classes, check_words, padded
from ..training.random import NOISE, batch_indices, generator
from .classifier import AttentiveClassifier
from .config import AttentiveTraining
from .losses import Loss, check_widths, class_weights, label_loss, mlm_loss, tying_loss
from .masked_words import Masking, hide_words, masking_of
from .quality import Quality, measure_quality

Progress = Callable[[int, int, Loss], None]


@dataclass(frozen=True)
class Trained:
    """What came of a training: the mean loss and the quality on dev of each epoch, and the epoch that was kept."""

    losses: tuple[float, ...]
    dev: tuple[Quality, ...]
    epoch: int

    @property
    def best(self) -> Quality:
        return self.dev[self.epoch]


def train_attentive(
    model: AttentiveClassifier,
    task: DocumentTask,
    train: Sequence[Document],
    dev: Sequence[Document],
    config: AttentiveTraining | None = None,
    *,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> Trained:
    """Train `model` in place, and leave it in evaluation mode on `device` with the weights of its best epoch."""
    config = config or AttentiveTraining()
    _check(model, train, dev, config)
    run = _Run(model.to(device), task, train, config, torch.device(device), progress)
    losses, found, best, kept = [], list[Quality](), -1, model.state_dict()
    earliest = min(config.earliest, config.epochs - 1)
    with torch.random.fork_rng(devices=[run.device] if run.device.type == "cuda" else []):
        torch.manual_seed(config.seed)
        for epoch in range(config.epochs):
            losses.append(run.train_epoch())
            found.append(measure_quality(*predict(model, task, dev)))
            if epoch >= earliest and (best < 0 or _value(found[epoch], config) > _value(found[best], config)):
                best, kept = epoch, copy.deepcopy(model.state_dict())
            if config.patience and best >= 0 and epoch - best >= config.patience:
                break
    model.load_state_dict(kept)
    model.eval()
    return Trained(tuple(losses), tuple(found), best)


@torch.no_grad()
def predict(
    model: AttentiveClassifier, task: DocumentTask, documents: Sequence[Document], batch_size: int = 128
) -> tuple[Float[Tensor, "document label"], Tensor]:
    """Return the logits of documents and their labels, both in the order of the documents and on the CPU."""
    model.eval()
    device, order = model.decoder.weight.device, sorted(range(len(documents)), key=lambda row: documents[row].length)
    logits = torch.zeros(len(documents), model.config.labels)
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        batch = task.collate([documents[row].text for row in rows]).to(device)
        logits[rows] = model(**batch.inputs).logits.float().cpu()
    return logits, torch.tensor([document.label for document in documents])


class _Run:
    """Holds what lives from epoch to epoch: numbered documents, the stream of batches and the optimiser."""

    def __init__(
        self,
        model: AttentiveClassifier,
        task: DocumentTask,
        train: Sequence[Document],
        config: AttentiveTraining,
        device: torch.device,
        progress: Progress | None,
    ) -> None:
        self.model, self.task, self.config, self.device, self.progress = model, task, config, device, progress
        self.rows = [task.numbers(document.text) for document in train]
        self.labels = torch.tensor([document.label for document in train])
        weights = class_weights(self.labels, max(2, model.config.labels)) if config.balance else None
        self.weights = None if weights is None else weights.to(device)
        self.masking: Masking | None = masking_of(task.vocabulary, config.mask_share) if config.mlm else None
        self.batches = batch_indices(len(train), config.batch_size, config.seed, lengths=[len(r) for r in self.rows])
        self.epoch_steps, self.step = max(1, len(train) // config.batch_size), 0
        fused = device.type in ("cpu", "cuda")  # a sixth of the time, most of it the embeddings'
        self.optimizer = torch.optim.Adam(_groups(model, config), lr=config.learning_rate, amsgrad=True, fused=fused)

    def train_epoch(self) -> float:
        """Train for one epoch and return its mean loss."""
        self.model.train()
        # Added up on the device: reading every loss would make a GPU wait at every step.
        total = sum((self._run_step() for _ in range(self.epoch_steps)), torch.zeros((), device=self.device))
        mean = float(total / self.epoch_steps)
        if not math.isfinite(mean):
            raise ModelError(
                f"the loss is {mean} after step {self.step}: lower learning_rate = {self.config.learning_rate}"
            )
        return mean

    def _run_step(self) -> Tensor:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.bf16):
            loss = self._loss(next(self.batches))
        self.optimizer.zero_grad()
        torch.autograd.backward(loss.total)
        nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
        self.optimizer.step()
        self.step += 1
        if self.progress is not None:
            self.progress(self.step, self.epoch_steps * self.config.epochs, loss)
        return loss.total.detach()

    def _loss(self, rows: list[int]) -> Loss:
        inputs = {name: value.to(self.device) for name, value in padded([self.rows[row] for row in rows]).items()}
        output, nothing = self.model(**inputs), torch.zeros((), device=self.device)
        label = label_loss(output.logits, self.labels[rows].to(self.device), self.weights)
        tying = tying_loss(output) if self.config.tying else nothing
        mlm = nothing
        if self.masking is not None:
            draw = generator(self.config.seed, NOISE, self.step)
            hidden = hide_words(inputs["input_ids"], output.attended, self.masking, draw)
            mlm = mlm_loss(self.model, inputs["input_ids"], inputs["attention_mask"], hidden)
        return Loss(label, tying, mlm, label + self.config.tying * tying + self.config.mlm * mlm)


def _groups(model: AttentiveClassifier, config: AttentiveTraining) -> list[dict[str, Any]]:
    """Keep the attention apart: it is not decayed, and has its own rate."""
    attention = set(model.alignment.parameters())
    others = [weight for weight in model.parameters() if weight.requires_grad and weight not in attention]
    rate = config.learning_rate * config.attention_rate
    return [
        {"params": others, "weight_decay": config.weight_decay},
        {"params": list(model.alignment.parameters()), "weight_decay": 0.0, "lr": rate},
    ]


def _value(quality: Quality, config: AttentiveTraining) -> float:
    return float(getattr(quality, config.select))


def _check(
    model: AttentiveClassifier, train: Sequence[Document], dev: Sequence[Document], config: AttentiveTraining
) -> None:
    """Refuse what would fail late or mislead."""
    for documents, split in ((train, "training"), (dev, "dev")):
        check_classes(documents, split)
        check_words(documents, split)
        _check_labels(documents, split, max(2, model.config.labels))
    if model.config.labels > 2 and config.select == "auc":
        raise SettingError("select = auc is for two classes: select by accuracy or f1")
    if config.tying:
        check_widths("tying", model.hidden_width, model.config.width)
    if config.mlm:
        check_widths("mlm", model.hidden_width, model.config.width)
        if model.embedding.weight.requires_grad:
            raise SettingError(
                "mlm decodes with the embeddings, which must stay as they are: make the classifier with freeze = True"
            )


def _check_labels(documents: Sequence[Document], split: str, classes: int) -> None:
    highest = max(document.label for document in documents)
    if highest >= classes:
        raise DataError(
            f"a {split} document has label {highest} and the model knows {classes} classes, 0 to {classes - 1}: make "
            f"it with labels = {highest + 1}"
        )
