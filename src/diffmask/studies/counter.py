"""Train the digit counter whose explanations are known."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F

from ..models.digit_counter import DigitCounter
from ..tasks.digits import DigitCounting, labels
from ..training.random import batch_indices


def train_counter(task: DigitCounting, seed: int, epochs: int = 50) -> tuple[DigitCounter, float]:
    """Train as published (Adam 1e-3, batches of 128) and return the epoch with the best validation accuracy.

    The authors' code also subtracts an entropy taken across the batch, which their paper does not mention; we do not.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = DigitCounter()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    batches = batch_indices(len(task.train), 128, seed)
    best_accuracy, best = -1.0, model.state_dict()
    for _ in range(epochs):
        for _ in range(len(task.train) // 128):
            batch = task.collate(next(batches))
            loss = F.binary_cross_entropy_with_logits(model(**batch.inputs), labels(batch))
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
        if (accuracy := measure_accuracy(model, task)) > best_accuracy:
            best_accuracy, best = accuracy, copy.deepcopy(model.state_dict())
    model.load_state_dict(best)
    return model, best_accuracy


@torch.no_grad()
def measure_accuracy(model: DigitCounter, task: DigitCounting) -> float:
    """Return the share of validation questions the model answers right."""
    batch = task.collate(task.validation)
    return float(((model(**batch.inputs) > 0) == labels(batch).bool()).float().mean())
