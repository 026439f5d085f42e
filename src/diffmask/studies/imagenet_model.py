"""The model of the ImageNet study: any vision transformer, with its own head of labels or one trained here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from ..errors import ModelError
from ..tasks.stored_images import MEAN, STD, StoredImages
from .cifar10_sources import load_config, load_encoder
from .stretch import stretched
from .trained import device

HEAD_STEPS, HEAD_RATE, HEAD_DECAY = 200, 1e-2, 1e-2


def load_classifier(place: Path, pictures: int, pixels: int) -> tuple[Any, bool]:
    """Load a model for images of a size, and say whether it has a head of its own."""
    kinds = load_config(place).architectures or []
    own = any(kind.endswith("ForImageClassification") for kind in kinds)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # of a new head
        model = stretched(load_encoder(place, **({} if own else {"num_labels": pictures})), pixels)
    return model.to(device()).eval(), own


def labels_of(model: Any) -> list[str]:
    """List the labels of a classifier in the order of its logits."""
    known = model.config.id2label
    return [known[number] for number in sorted(known)]


def train_head(model: Any, task: StoredImages, labels: Int64[Tensor, " image"]) -> None:
    """Train the linear head of a model whose other weights stay, on the crops that everything is fitted on."""
    head = getattr(model, "classifier", None)
    if not isinstance(head, nn.Linear):
        raise ModelError(
            f"{type(model).__name__} has no labels of its own and no linear 'classifier' to train: use a ViT, DINOv2, "
            "or a model that was trained to classify"
        )
    model.classifier = nn.Identity()  # logits are then what the head reads
    features = torch.cat(
        [features_of(model, task, task.train[first : first + 64]) for first in range(0, len(task.train), 64)]
    )
    model.classifier = head
    optimizer = torch.optim.AdamW(head.parameters(), lr=HEAD_RATE, weight_decay=HEAD_DECAY)
    for _ in range(HEAD_STEPS):
        optimizer.zero_grad()
        torch.autograd.backward(F.cross_entropy(head(features), labels[task.rows(task.train)]))
        optimizer.step()


@torch.no_grad()
def features_of(model: Any, task: StoredImages, examples: Sequence[int]) -> Float[Tensor, "image feature"]:
    """Return what a model without its head says of some images."""
    found: Tensor = model(pixel_values=task.prepare(task.images[task.rows(examples)])).logits
    return found


def normalisation(place: Path) -> tuple[Sequence[float], Sequence[float]]:
    """Return the mean and spread of the channels a model was trained with, where its directory says so."""
    found = place / "preprocessor_config.json"
    said = json.loads(found.read_text()) if found.is_file() else {}
    return said.get("image_mean", MEAN), said.get("image_std", STD)
