"""What the CIFAR-10 study starts from, known by its content: another encoder or other images make other results."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..errors import ModelError
from ..storage import file_hash
from ..tasks.cifar10 import image_files
from .setup import Setup

WEIGHTS = ("*.json", "*.safetensors", "*.bin")  # what transformers reads of an encoder


@dataclass(frozen=True)
class Sources:
    """The directories of the images and of the encoder, the side of its patches, and a mark of all three."""

    images: Path
    encoder: Path
    patch: int
    mark: str  # stands in the settings of a seed and of every part of it


def find_sources(setup: Setup) -> Sources:
    """Find the images and the encoder, and read every byte of them once."""
    images, encoder = _find_images(setup), setup.find_encoder()
    patch = patch_of(encoder)
    weights = _hash(path for pattern in WEIGHTS for path in encoder.glob(pattern))
    mark = f"encoder {weights}, patch {patch}, images {_hash(image_files(images))}"
    return Sources(images, encoder, patch, mark)


def _find_images(setup: Setup) -> Path:
    """Return the directory of the images: the data directory itself, or its part `cifar10`."""
    if setup.data is not None and image_files(setup.data):
        return setup.data
    return setup.find_data("cifar10")


def _hash(files: Iterable[Path]) -> str:
    """Hash files by their names and their content, wherever they are."""
    digest = hashlib.sha256()
    for path in sorted(files, key=lambda path: path.name):
        digest.update(f"{path.name} {file_hash(path)}\n".encode())
    return digest.hexdigest()[:16]


def load_encoder(place: Path, **settings: Any) -> Any:
    """Load a model that classifies images, in float32, or say why there is none."""
    from transformers import AutoModelForImageClassification

    try:
        return AutoModelForImageClassification.from_pretrained(place, dtype=torch.float32, **settings)
    except (OSError, ValueError, KeyError) as error:
        raise _no_encoder(place, error) from error


def load_config(place: Path) -> Any:
    """Read the settings of a model without its weights."""
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(place)
    except (OSError, ValueError, KeyError) as error:
        raise _no_encoder(place, error) from error


def _no_encoder(place: Path, error: Exception) -> ModelError:
    why = str(error).strip().split("\n")[0].rstrip(".")
    return ModelError(
        f"{place} is no vision transformer of transformers ({why}): name the directory of one, such as a ViT or "
        "DINOv2, with --encoder"
    )


def patch_of(place: Path) -> int:
    """Read the side of a model's patches from its settings: the data are cut before the model is made."""
    config = load_config(place)
    found = getattr(getattr(config, "vision_config", config), "patch_size", None)
    if not isinstance(found, int):
        raise ModelError(
            f"{config.model_type} in {place} has no square patches (patch_size is {found}): name a ViT or DINOv2 with "
            "--encoder"
        )
    return found
