"""The model of the patch-counting study: a small vision transformer that learns to count."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import cross_entropy

from ..tasks.patch_counting import PATCH, SIDE, UNITS, PatchCounting
from ..training.random import batch_indices

BATCH_SIZE, RATE, EVERY = 64, 1e-3, 50


def train_patch_counter(task: PatchCounting, seed: int, steps: int, device: torch.device) -> tuple[Any, float]:
    """Train a fresh model until it counts all validation images right or its steps end; return it and its accuracy."""
    model = make_patch_counter(seed).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    batches, accuracy = batch_indices(len(task.train), BATCH_SIZE, seed), 0.0
    for number in range(1, steps + 1):
        rows = next(batches)
        batch = task.collate(rows).to(device)
        labels = task.red(rows).sum(1).to(device)
        optimizer.zero_grad()
        torch.autograd.backward(cross_entropy(model(**batch.inputs).logits, labels))
        optimizer.step()
        if number % EVERY == 0 or number == steps:
            accuracy = measure(model, task, device)
        if accuracy == 1.0:
            break
    return model.eval(), accuracy


def make_patch_counter(seed: int) -> Any:
    """Build a vision transformer of three layers, random but the same for the same seed."""
    from transformers import ViTConfig, ViTForImageClassification

    sizes: dict[str, Any] = {"hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 96, "image_size": SIDE * PATCH, "patch_size": PATCH, "num_labels": UNITS + 1}
    config = ViTConfig(**sizes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ViTForImageClassification(config)


@torch.no_grad()
def measure(model: Any, task: PatchCounting, device: torch.device) -> float:
    """Return the share of validation images that are counted right."""
    batch = task.collate(task.validation).to(device)
    right = model.eval()(**batch.inputs).logits.argmax(-1).cpu() == task.red(task.validation).sum(1)
    model.train()
    return float(right.float().mean())
