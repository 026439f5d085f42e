"""ImageNet (Nalmpantis et al. 2023, Fig. 4): the study of CIFAR-10 on a folder of pictures and any vision transformer.

`--data` is the folder, `--encoder` a directory or a Hub name. A model with a head of labels is asked for its label. An
encoder without one cannot classify: it gets a linear head, trained here on its frozen features to tell the pictures of
the folder apart, and the result says so. Keep set and ranking are fitted on crops of the same pictures, so this shows
and proves nothing. Without a GPU all of it is done smaller, in minutes.
"""

from __future__ import annotations

import base64
import io
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor

from ..attribution.method import Method
from ..errors import DataError, ModelError
from ..models.adapter import Adapter
from ..models.hub import fetch
from ..pictures import open_picture, picture_folder
from ..settings import change
from ..tasks.stored_images import StoredImages
from ..training.fit import Fit, fit
from ..training.random import NOISE, generator
from .cifar10_curves import KEEP_SET, RANKING, REFINED, all_methods, rank
from .cifar10_fits import FULL, SMALL, Size, at_the_ends
from .cifar10_model import adapt_to, measure_accuracy
from .cifar10_summary import shown_images
from .cifar10_time import computing
from .imagenet_model import labels_of, load_classifier, normalisation, train_head
from .result import write_result
from .setup import News, Setup
from .trained import device

log = logging.getLogger(__name__)

SIDE, THUMBNAIL = 224, 112  # pixels of a picture as it is cut, and as it is shown
# Those that are drawn: to leave out one patch at a time would take longer than all others together.
COMPARED = (KEEP_SET, RANKING, REFINED, "grad-cam", "rollout", "chefer", "integrated-gradients", "rise")


@dataclass(frozen=True)
class Shape:
    """How much is cut, fitted and shown; `pixels` is what the model sees, a multiple of 14 and of 16."""

    pixels: int
    crops: int
    shown: int
    size: Size


STEPS = {"steps": 600, "batch_size": 64}
LARGE = Shape(
    224, 64, 12, replace(FULL, keep_set=change(FULL.keep_set, STEPS), ranking=change(FULL.ranking, STEPS), batch=12)
)
# For a processor, which takes some 20 of these images a second: only the first depths and the last.
SOME = {"steps": 80, "batch_size": 6, "validation_limit": 8}
QUICK = {**SOME, "learning_rate": 2e-2, "start_open": 0.5, "ablation_steps": 8, "validate_every": 40, "cache": "memory"}
MODEST = Shape(
    112,
    8,
    6,
    replace(
        FULL,
        every=12,
        batch=6,
        samples=300,
        steps=8,
        rows=64,
        keep_set=change(FULL.keep_set, QUICK),
        ranking=change(FULL.ranking, SOME),
    ),
)
FEW = Shape(112, 2, 2, replace(SMALL, batch=2))


def run(setup: Setup) -> News:
    """Fit both explanations on crops of the pictures and write down what every method says of some of them."""
    if setup.data is None or setup.encoder is None:
        raise DataError("this study needs a folder of pictures and a model: name them with --data and --encoder")
    shape = FEW if setup.small else LARGE if device().type == "cuda" else MODEST
    yield 1
    paths = picture_folder(setup.data)[: 4 if setup.small else None]
    encoder = fetch(setup.encoder).path
    classifier, own = load_classifier(encoder, len(paths), shape.pixels)
    model = adapt_to(classifier, shape.size.every)
    names = [name_of(path) for path in paths]
    task, views = make_task(model, paths, shape, encoder, labels_of(classifier) if own else names)
    labels = torch.arange(len(task.images), device=task.images.device) % len(paths)
    if not own:
        train_head(classifier, task, labels)
    with computing(device(), shape.size.bf16):
        fitted = fit(model, task, shape.size.keep_set)
        ranking = fit(at_the_ends(model), task, shape.size.ranking)
        chosen = views[:: max(1, len(views) // shape.shown)][: shape.shown]
        methods = {name: made for name, made in all_methods(fitted, ranking, shape.size, 0).items() if name in COMPARED}
        scores = rank_all(methods, fitted, chosen, shape.size)
        shown = shown_images(fitted, scores, chosen, torch.zeros_like(labels))
    shown |= {"side": THUMBNAIL, "images": [thumbnail(task.images[row]) for row in chosen]}
    # A file's name is no label of the model: there may be more pictures than labels.
    shown |= {"labels": [names[int(labels[row])] for row in chosen]}
    target = "the label the model gives" if own else f"which of the {len(paths)} pictures it is"
    yield f"{len(paths)} pictures: {target}"
    last = fitted.scores[-1]
    summary = {
        "pictures": len(paths),
        "target": target,
        "head": "the model's own" if own else "linear, trained by this study on crops of these pictures",
        "head_accuracy": None if own else measure_accuracy(classifier, task, labels, task.validation),
        "pixels": shape.pixels,
        "margin": shape.size.keep_set.objective.margin,
        "kept": last.kept,
        "divergence": last.divergence,
        "agreement": last.agreement,
        "methods": list(scores),
    }
    yield write_result(setup.output, "imagenet", setup.command, [0], summary, [], shown=shown)


def rank_all(
    methods: Mapping[str, Method], fitted: Fit, examples: Sequence[int], size: Size
) -> dict[str, Float[Tensor, "image unit"]]:
    """Score by every method that can read this model, as not all have attention between all patches."""
    scores: dict[str, Tensor] = {}
    for name, method in methods.items():
        try:
            scores |= rank({name: method}, fitted, examples, size)
        except ModelError as error:
            log.warning("%s is left out: %s", name, error)
    return scores


def make_task(
    model: Adapter, paths: Sequence[Path], shape: Shape, encoder: Path, labels: Sequence[str]
) -> tuple[StoredImages, range]:
    """Cut crops out of all pictures to fit on, a few to choose on, and put the whole pictures behind them."""
    whole = torch.stack([square(path) for path in paths])
    crops = torch.cat([crop(whole, number) for number in range(shape.crops)])
    images, apart = torch.cat([crops, whole]).to(device()), len(crops) - len(paths)  # the last crop of each
    assert model.patch is not None  # adapt has found patches
    mean, std = normalisation(encoder)
    task = StoredImages(
        images,
        range(apart),
        range(apart, len(crops)),
        size=shape.pixels,
        patch=model.patch[0],
        ask="prefix",
        labels=labels,
        mean=mean,
        std=std,
    )
    return task, range(len(crops), len(images))


def name_of(path: Path) -> str:
    """Read the name of a picture's class out of its file's, as in n01534433_junco."""
    return path.stem.partition("_")[2].replace("_", " ") or path.stem


def square(path: Path) -> UInt8[Tensor, "3 side side"]:
    """Cut the middle square out of a picture."""
    import numpy as np
    from PIL import ImageOps

    fitted = ImageOps.fit(open_picture(path), (SIDE, SIDE))
    return torch.from_numpy(np.asarray(fitted).copy()).permute(2, 0, 1).contiguous()


def crop(images: UInt8[Tensor, "image 3 side side"], number: int) -> UInt8[Tensor, "image 3 side side"]:
    """Cut a random window of at least half the width out of each image, stretch it, and flip every other time."""
    draw = generator(0, NOISE, number)
    width = int(SIDE * (0.5 + 0.5 * float(torch.rand((), generator=draw))))
    row, column = (int(torch.randint(SIDE - width + 1, (), generator=draw)) for _ in range(2))
    window = images[:, :, row : row + width, column : column + width].float()
    wide = F.interpolate(window, (SIDE, SIDE), mode="bilinear", align_corners=False).round().to(torch.uint8)
    return wide.flip(-1) if number % 2 else wide


def thumbnail(image: UInt8[Tensor, "3 side side"]) -> str:
    """Compress an image for the result file."""
    from PIL import Image

    out = io.BytesIO()
    picture = Image.fromarray(image.permute(1, 2, 0).cpu().numpy()).resize((THUMBNAIL, THUMBNAIL))
    picture.save(out, "JPEG", quality=85)
    return base64.b64encode(out.getvalue()).decode()
