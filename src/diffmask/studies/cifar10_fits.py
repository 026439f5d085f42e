"""What the CIFAR-10 study fits on a seed's classifier: a keep set and a ranking, each timed against its floor."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from ..models.adapter import Adapter
from ..models.adapting import adapt
from ..settings import change
from ..storage import write_file
from ..tasks.stored_images import StoredImages
from ..training.config import FitConfig, recipe
from ..training.fit import Fit, fit
from ..training.saved import load_fit, save_fit
from .cifar10_time import timed
from .fine_tune import FineTuneConfig


def _keep_set() -> FitConfig:
    return recipe("vision", margin=0.1, steps=1500, batch_size=128, depths_per_step=2, hidden=96)


def _ranking() -> FitConfig:
    # Removed patches become the mean, as they do when the curves are drawn, and no method has a say in it.
    changes = {"steps": 800, "batch_size": 256, "pairs": 8, "hidden": 256, "start": "mean", "validate_every": 400}
    return recipe("ranking", measure="log-odds", sizes="half", **changes)


@dataclass(frozen=True)
class Size:
    """How much is trained and measured, and how; the small one shows that everything runs."""

    pixels: Annotated[int, "height and width of an image as the model sees it"] = 112
    train: Annotated[int, "most training images"] = 48_000
    validation: Annotated[int, "training images, the last ones, on which epochs and fits are chosen"] = 2000
    known: Annotated[int, "test images, the first ones, whose results were known when the method was changed"] = 1000
    test: Annotated[int, "test images, those behind them, on which all is measured"] = 1000
    accuracy: Annotated[int, "test images on which the classifier is measured"] = 10_000
    every: Annotated[int, "gates read every so many blocks, counted from the last"] = 4
    ask: Annotated[Literal["nowhere", "prefix"], "prefix: gates read [CLS] beside their patch; or nowhere"] = "prefix"
    bf16: Annotated[bool, "on a GPU, compute in bfloat16 where that is safe"] = True
    compile: Annotated[bool, "on a GPU, compile the blocks where a model is only run again and again"] = True
    points: Annotated[int, "of a perturbation curve"] = 13
    samples: Annotated[int, "masks RISE draws per image"] = 1000
    steps: Annotated[int, "points on the way of integrated gradients"] = 50
    rows: Annotated[int, "images in one pass when nothing is trained"] = 8192
    batch: Annotated[int, "images whose curves are measured together"] = 250
    published: Annotated[int, "test images of the published protocol, the first ones, as its authors took them"] = 50
    shown: Annotated[int, "images in the pictures"] = 8
    tune: FineTuneConfig = field(default_factory=lambda: FineTuneConfig(4, 256, 1e-4, bf16=True))
    keep_set: FitConfig = field(default_factory=_keep_set)
    ranking: FitConfig = field(default_factory=_ranking)


FULL = Size()
SMALL = Size(
    train=16,
    validation=8,
    test=4,
    accuracy=16,
    every=6,
    points=3,
    samples=8,
    steps=4,
    rows=64,
    batch=4,
    published=1,
    shown=2,
    tune=FineTuneConfig(1, 16, 1e-4),
    keep_set=change(_keep_set(), {"steps": 4, "batch_size": 4, "ablation_steps": 2, "calibrate": False}),
    ranking=change(_ranking(), {"steps": 4, "batch_size": 4}),
)


def fit_keep_set(
    model: Adapter, task: StoredImages, size: Size, seed: int, path: Path, source: str
) -> tuple[Fit, dict[str, Any]]:
    """Fit the keep set of a seed, or read it back."""
    config = change(size.keep_set, {"seed": seed})
    masks = config.depths_per_step or len(model.sites)
    return _once(path, source, model, task, config, masks)


def fit_ranking(
    model: Adapter, task: StoredImages, size: Size, seed: int, path: Path, source: str
) -> tuple[Fit, dict[str, Any]]:
    """Fit the ranking of a seed, or read it back."""
    config = change(size.ranking, {"seed": seed, "compile": compiles(size, model)})
    masks = config.comparison.pairs  # two sets forward each, which is what a mask takes forward and back
    return _once(path, source, at_the_ends(model), task, config, masks)


def compiles(size: Size, model: Adapter) -> bool:
    """Say whether blocks are compiled: on a CPU that takes longer than it saves."""
    return size.compile and model.device.type == "cuda"


def at_the_ends(model: Adapter) -> Adapter:
    """Return a model seen at its first and last site alone: the last knows most of what was decided."""
    return adapt(model.model, sites=[model.sites.names[0], model.sites.names[-1]])


def _once(
    path: Path, source: str, model: Adapter, task: StoredImages, config: FitConfig, masks: int
) -> tuple[Fit, dict[str, Any]]:
    """Fit and keep a probe with its timing, or read it back if the same was kept; the timing is written last.

    What is the same is said by what it was made of, and not by the commit: a change to a table or to what is measured
    must not cost hours on a GPU. Whoever changes how a probe is fitted removes the directory.
    """
    beside = path.with_suffix(".json")
    mark = repr((source, model.fingerprint, model.sites.names, task.ask, task.train, task.validation, config))
    if beside.is_file() and (kept := json.loads(beside.read_text()))["mark"] == mark:
        return load_fit(path, model, task), kept
    images = config.steps * min(config.batch_size, len(task.train))
    made, timing = timed(model, task, config.batch_size, images, masks, lambda: fit(model, task, config))
    save_fit(made, path)
    write_file(beside, json.dumps({**timing, "mark": mark}).encode())
    return made, {**timing, "mark": mark}
