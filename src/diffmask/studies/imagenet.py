"""ImageNet (Nalmpantis et al. 2023, Fig. 4): the study of CIFAR-10 on a folder of pictures and any vision transformer.

`--data` is the folder, `--encoder` a directory or a Hub name. A model with a head of labels is asked for its label. An
encoder without one is asked which of the folder's pictures it sees: a softmax over the similarity of its features with
those of each picture. Keep set and ranking are fitted on crops of the same pictures, so this shows and proves nothing.
"""

from __future__ import annotations

import base64
import io
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from ..attribution.method import Method
from ..errors import DataError, ModelError
from ..models.adapter import Adapter, adapt
from ..settings import change
from ..tasks.pictures import open_picture, picture_folder
from ..tasks.stored_images import MEAN, STD, StoredImages
from ..training.budget import fit_budget
from ..training.fit import Fit, fit
from ..training.random import NOISE, generator
from .cifar10_curves import all_methods, rank
from .cifar10_fits import FULL, SMALL, Size
from .cifar10_model import stretch_positions
from .cifar10_summary import shown_images
from .cifar10_time import computing
from .result import write_result
from .setup import News, Setup
from .trained import device

log = logging.getLogger(__name__)

SIDE, SHARP, THUMBNAIL = 224, 20.0, 112  # pixels; how sure an encoder is of the picture it sees; pixels of a picture


@dataclass(frozen=True)
class Shape:
    """How much is cut, fitted and shown."""

    crops: int
    shown: int
    size: Size


STEPS = {"steps": 600, "batch_size": 64}
LARGE = Shape(
    64, 12, replace(FULL, keep_set=change(FULL.keep_set, STEPS), ranking=change(FULL.ranking, STEPS), batch=12)
)
FEW = Shape(2, 2, replace(SMALL, batch=2))


class Recogniser(nn.Module):
    """Says which of some pictures an encoder sees, by how alike its features are; logits as a classifier has them."""

    main_input_name = "pixel_values"
    known: Tensor

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder, self.config = encoder, encoder.config
        self.register_buffer("known", torch.zeros(0))

    def features(self, pixel_values: Float[Tensor, "image 3 height width"]) -> Float[Tensor, "image feature"]:
        """Return [CLS] and the mean patch, each of length 1."""
        states = self.encoder(pixel_values=pixel_values).last_hidden_state.float()
        return torch.cat([F.normalize(states[:, 0], dim=-1), F.normalize(states[:, 1:].mean(1), dim=-1)], dim=-1)

    def forward(self, pixel_values: Float[Tensor, "image 3 height width"]) -> SimpleNamespace:
        return SimpleNamespace(logits=SHARP * self.features(pixel_values) @ self.known.T)


def run(setup: Setup) -> News:
    """Fit both explanations on crops of the pictures and write down what every method says of some of them."""
    shape = FEW if setup.small else LARGE
    if setup.data is None or setup.encoder is None:
        raise DataError("this study needs a folder of pictures and a model: name them with --data and --encoder")
    yield 1
    paths = picture_folder(setup.data)[: 4 if setup.small else None]
    model, target = load_model(setup.encoder, len(paths))
    task, views = make_task(model, paths, shape, setup.encoder)
    with computing(device(), shape.size.bf16):
        if isinstance(model.model, Recogniser):
            with torch.no_grad():
                model.model.known = model.model.features(task.collate(views).inputs["pixel_values"])
        fitted = fit(model, task, shape.size.keep_set)
        ranking = fit_budget(model, task, shape.size.ranking)
        chosen = views[: shape.shown]
        scores = rank_all(all_methods(fitted, ranking, shape.size, 0), fitted, chosen, shape.size)
        labels = torch.arange(len(task.images)) - views[0]
        shown = shown_images(fitted, scores, chosen, labels.clamp_min(0))
    shown |= {"side": THUMBNAIL, "images": [thumbnail(task.images[row]) for row in chosen]}
    yield f"{len(paths)} pictures: {target}"
    last = fitted.scores[-1]
    summary = {
        "pictures": len(paths),
        "target": target,
        "kept": last.kept,
        "divergence": last.divergence,
        "methods": list(scores),
    }
    yield write_result(setup.output, "imagenet", setup.command, [0], summary, [], shown=shown)


def rank_all(
    methods: Mapping[str, Method], fitted: Fit, examples: Sequence[int], size: Size
) -> dict[str, Float[Tensor, "image unit"]]:
    """Score by every method that can read this model; an encoder of one's own gives no attention."""
    scores: dict[str, Tensor] = {}
    for name, method in methods.items():
        try:
            scores |= rank({name: method}, fitted, examples, size)
        except ModelError as error:
            log.warning("%s is left out: %s", name, error)
    return scores


def load_model(name: Path, pictures: int) -> tuple[Adapter, str]:
    """Load a classifier, or make an encoder tell the pictures of the folder apart; say what is then asked of it."""
    from transformers import AutoConfig, AutoModel, AutoModelForImageClassification

    config = AutoConfig.from_pretrained(str(name))
    if any(kind.endswith("ForImageClassification") for kind in config.architectures or []):
        model, target = AutoModelForImageClassification.from_pretrained(str(name)), "the label the model gives"
    else:
        encoder = AutoModel.from_pretrained(str(name), dtype=torch.float32)
        stretch_positions(encoder, SIDE)
        model, target = Recogniser(encoder), f"which of the {pictures} pictures the features are most like"
        model.known = torch.zeros(pictures, 2 * config.hidden_size)
    return adapt(model.to(device()).eval()), target


def make_task(model: Adapter, paths: Sequence[Path], shape: Shape, name: Path) -> tuple[StoredImages, range]:
    """Cut crops out of all pictures to fit on, a few to choose on, and put the whole pictures behind them."""
    whole = torch.stack([square(path) for path in paths])
    crops = torch.cat([crop(whole, number) for number in range(shape.crops)])
    images, apart = torch.cat([crops, whole]).to(device()), len(crops) - len(crops) // 8 - 1
    assert model.patch is not None  # adapt has found patches
    mean, std = normalisation(name)
    names = [path.stem.partition("_")[2].replace("_", " ") or path.stem for path in paths]
    known = getattr(model.model.config, "id2label", {}) if not isinstance(model.model, Recogniser) else {}
    task = StoredImages(
        images,
        range(apart),
        range(apart, len(crops)),
        size=SIDE,
        patch=model.patch[0],
        ask="prefix",
        labels=[known[number] for number in sorted(known)] or names,
        mean=mean,
        std=std,
    )
    return task, range(len(crops), len(images))


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


def normalisation(name: Path) -> tuple[Sequence[float], Sequence[float]]:
    """Return the mean and spread of the channels a model was trained with, where its directory says so."""
    path = name / "preprocessor_config.json"
    found = json.loads(path.read_text()) if path.is_file() else {}
    return found.get("image_mean", MEAN), found.get("image_std", STD)


def thumbnail(image: UInt8[Tensor, "3 side side"]) -> str:
    """Compress an image for the result file."""
    from PIL import Image

    out = io.BytesIO()
    picture = Image.fromarray(image.permute(1, 2, 0).cpu().numpy()).resize((THUMBNAIL, THUMBNAIL))
    picture.save(out, "JPEG", quality=85)
    return base64.b64encode(out.getvalue()).decode()
