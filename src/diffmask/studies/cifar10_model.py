"""The classifier of the CIFAR-10 study: a pretrained vision transformer, fine-tuned once per seed."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Int64, UInt8
from torch import Tensor

from ..errors import ModelError
from ..models.adapter import Adapter
from ..models.adapting import adapt
from ..storage import write_file
from ..tasks.cifar10 import CLASSES
from ..tasks.stored_images import StoredImages
from ..training.random import NOISE, generator
from .cifar10_sources import Sources, load_encoder
from .fine_tune import FineTuneConfig, fine_tune
from .stretch import stretched
from .trained import FIGURES

PAD = 4  # pixels by which a picture may move


def train_cifar10(
    sources: Sources, task: StoredImages, labels: Int64[Tensor, " image"], directory: Path, config: FineTuneConfig
) -> dict[str, Any]:
    """Fine-tune on the task's training images, unless that is done; the epoch is chosen on its validation images."""
    mark = repr((sources.mark, task.train, task.validation, task.size, config))
    if (directory / FIGURES).is_file() and (kept := json.loads((directory / FIGURES).read_text()))["mark"] == mark:
        return dict(kept)
    model, began = make_classifier(sources.encoder, task.size[0], config.seed), time.perf_counter()
    found = fine_tune(
        model,
        Augmented(task, labels, config.seed),
        len(task.train),
        config,
        evaluate=lambda: measure_accuracy(model, task, labels, task.validation),
        device=task.images.device,
    )
    figures = {
        "validation_accuracy": found.score,
        "epoch": found.epoch + 1,
        "epochs": config.epochs,
        "images": len(task.train),
        "seconds": time.perf_counter() - began,
        "mark": mark,
    }
    model.to("cpu").save_pretrained(directory)
    write_file(directory / FIGURES, json.dumps(figures).encode())
    return figures


def make_classifier(encoder: Path, size: int, seed: int) -> Any:
    """Load a vision transformer with a new head of ten classes, its positions stretched to the size once for all."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # of the new head
        model = stretched(load_encoder(encoder, num_labels=len(CLASSES)), size)
    adapt_to(model, 1)  # refuses a model that cannot be explained before it is trained
    model.config.id2label = dict(enumerate(CLASSES))
    model.config.label2id = {name: number for number, name in enumerate(CLASSES)}
    return model


def load_cifar10(directory: Path, device: torch.device, every: int = 1) -> Adapter:
    """Read a classifier back, in float32, with the sites that gates read."""
    return adapt_to(load_encoder(directory).to(device).eval(), every)


def adapt_to(model: Any, every: int) -> Adapter:
    """Read the patches, what enters the blocks, and every so many blocks, the last one always among them."""
    names = adapt(model).sites.names
    if len(names) < 2:
        raise ModelError(
            f"{type(model).__name__} merges its patches, so that only '{names[0]}' has a state for each of them, and "
            "this study reads blocks too: use a ViT or DINOv2"
        )
    return adapt(model, sites=[*names[:2], *names[:1:-1][::every][::-1]])


class Augmented:
    """Makes a batch of labelled images on their device, each shifted by up to 4 pixels and every other one flipped."""

    def __init__(self, task: StoredImages, labels: Int64[Tensor, " image"], seed: int) -> None:
        self.task, self.labels, self.seed, self.number = task, labels, seed, 0

    def __call__(self, rows: list[int]) -> Mapping[str, Tensor]:
        chosen = self.task.rows([self.task.train[row] for row in rows])
        draw = generator(self.seed, NOISE, self.number, chosen.device)
        self.number += 1
        images = shifted(self.task.images[chosen], draw)
        return {"pixel_values": self.task.prepare(images), "labels": self.labels[chosen]}


def shifted(images: UInt8[Tensor, "image 3 side side"], draw: torch.Generator) -> UInt8[Tensor, "image 3 side side"]:
    """Cut each image out of its mirrored surroundings at a random place, and flip every other one."""
    count, side, device = len(images), images.shape[-1], images.device
    wide = F.pad(images.float(), (PAD,) * 4, mode="reflect").to(torch.uint8)
    down, across = (torch.randint(2 * PAD + 1, (count, 1), generator=draw, device=device) for _ in range(2))
    line = torch.arange(side, device=device)
    rows, columns = (down + line)[:, :, None], (across + line)[:, None, :]
    cut = wide[torch.arange(count, device=device)[:, None, None], :, rows, columns].permute(0, 3, 1, 2)
    flip = torch.rand(count, 1, 1, 1, generator=draw, device=device) < 0.5
    return torch.where(flip, cut.flip(-1), cut)


@torch.no_grad()
def measure_accuracy(
    model: Any, task: StoredImages, labels: Int64[Tensor, " image"], examples: range | Any, batch_size: int = 500
) -> float:
    """Return the share of images that a classifier in evaluation mode labels right."""
    right = 0
    for start in range(0, len(examples), batch_size):
        rows = task.rows(examples[start : start + batch_size])
        found = model(pixel_values=task.prepare(task.images[rows])).logits.argmax(1)
        right += int((found == labels[rows]).sum())
    return right / len(examples)
