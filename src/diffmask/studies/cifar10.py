"""CIFAR-10 (Nalmpantis et al. 2023, §4): whose ranking of patches keeps a prediction longest and loses it soonest?

Each seed fine-tunes its own classifier, then fits a keep set and a ranking on training images. Epochs and fits are
chosen on training images set apart. What is reported of 1,000 test images is of numbers 1,000 to 1,999: the results of
those before were known when the method was last changed, so they serve the published protocol alone, which is of the
first 50. The accuracy of a classifier is of all test images.

Areas are of the probability of the predicted class, averaged over three replacements; `difference` is the area with the
least important patches first less the area with the most important first, and larger is better. `kept` is what an order
makes of a keep set: the smallest share of patches, taken from its top, that was measured to hold the margin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..settings import change
from ..storage import load_tensors, save_tensors
from ..tasks.cifar10 import CLASSES, read_cifar10
from ..tasks.stored_images import StoredImages
from .cifar10_curves import FIGURES, LEARNED, Curves, all_methods, measure_curves, rank
from .cifar10_fits import FULL, SMALL, Size, fit_keep_set, fit_ranking
from .cifar10_model import load_cifar10, measure_accuracy, train_cifar10
from .cifar10_published import PROTOCOL, beside_published, published_protocol
from .cifar10_sources import Sources, find_sources
from .cifar10_summary import rows_of, shown_images, summarise, summarise_kept
from .cifar10_time import computing, explain_cost
from .result import write_result
from .seeds import made_with, run_seeds
from .setup import News, Setup
from .trained import device

BY_SEED = ("classifier", "keep_set", "ranking", "cost", "jobs")  # older runs that are taken over have no jobs
MEASURED, AREAS, KEPT = "measured test images", "areas", "kept"


@dataclass(frozen=True)
class Data:
    """All images on the device that computes, training images first, and the task over them."""

    task: StoredImages
    labels: Tensor
    test: range
    published: range  # test images for the published protocol
    measured: range  # test images for the classifier's accuracy


def run(setup: Setup) -> News:
    """Fine-tune, fit, rank and measure seed by seed, saying so as each ends; last comes the result as written."""
    size, work = SMALL if setup.small else FULL, setup.work("cifar10")
    yield setup.seeds
    done: dict[int, dict[str, Any]] = {}
    sources = find_sources(setup)
    run_one, settings = partial(run_seed, size, sources, work, setup.jobs), f"{size}, {sources.mark}"
    for seed, found in run_seeds(run_one, range(setup.seeds), work, settings, setup.jobs, setup.take_over):
        done[seed] = found
        yield _line(seed, found)
    seeds = [done[seed] for seed in sorted(done)]
    areas = [read_measured(work, seed, AREAS) for seed in sorted(done)]
    kept = [read_measured(work, seed, KEPT) for seed in sorted(done)]
    more = {
        "settings": settings,
        "made_with": made_with(work, setup.seeds),
        "published_measures": "areas with unit spacing over 29 points, at most 28; nll is what the paper calls KL",
        "by_seed": [{key: found.get(key) for key in BY_SEED} for found in seeds],
        "curves": seeds[0]["curves"],
        "shown": seeds[0]["shown"],
    }
    protocol = beside_published([found["published"] for found in seeds])
    summary = {**summarise(areas, seeds, protocol), "kept": summarise_kept(kept)}
    yield write_result(setup.output, "cifar10", setup.command, sorted(done), summary, rows_of(areas), **more)


def run_seed(size: Size, sources: Sources, work: Path, jobs: int, seed: int) -> dict[str, Any]:
    """Do everything for one seed, one of so many at a time; what was finished before a stop is read back."""
    found = load_data(sources, size)
    task, here = found.task, device()
    directory = work / f"model-{seed}"
    tuned = train_cifar10(sources, task, found.labels, directory, change(size.tune, {"seed": seed}))
    with computing(here, size.bf16):
        model = load_cifar10(directory, here, size.every)
        tuned["accuracy"] = measure_accuracy(model.model, task, found.labels, found.measured)
        fitted, keep_timing = fit_keep_set(model, task, size, seed, work / f"keep-set-{seed}.safetensors", sources.mark)
        ranking, rank_timing = fit_ranking(model, task, size, seed, work / f"ranking-{seed}.safetensors", sources.mark)
        methods = all_methods(fitted, ranking, size, seed)
        scores = rank(methods, fitted, found.test, size)
        curves = measure_curves(scores, fitted, found.test, size)
        few = rank({name: methods[name] for name in PROTOCOL}, fitted, found.published, size)
        result = {
            "jobs": jobs,  # which share the GPU, and so its time
            "classifier": tuned,
            "keep_set": {
                **keep_timing,
                "scores": [asdict(score) for score in fitted.scores],
                "feasible": fitted.feasible,
            },
            "ranking": {**rank_timing, "scores": [asdict(score) for score in ranking.scores]},
            "cost": [explain_cost(fitted, ranking, count) for count in (1, min(256, size.validation))],
            "published": published_protocol(few, fitted, found.published),
            "curves": mean_curves(curves),
            "shown": shown_images(fitted, scores, found.test[: size.shown], found.labels),
        }
    save_measured(work, seed, curves, size.keep_set.objective.margin)
    return result


def load_data(sources: Sources, size: Size) -> Data:
    """Put the images where the model computes: those to fit on, those to choose on, and those to measure on."""
    train, test = (read_cifar10(sources.images, part) for part in ("train", "test"))
    chosen = min(size.train, len(train) - size.validation)
    apart = range(len(train) - size.validation, len(train))
    images, labels = (
        torch.cat(pair).to(device()) for pair in ((train.images, test.images), (train.labels, test.labels))
    )
    task = StoredImages(
        images,
        range(chosen),
        apart,
        size=size.pixels,
        patch=sources.patch,
        ask=size.ask,
        labels=CLASSES,
    )
    tests, fresh = range(len(train), len(images)), min(size.known, max(0, len(test) - size.test))
    return Data(task, labels, tests[fresh : fresh + size.test], tests[: size.published], tests[: size.accuracy])


def mean_curves(curves: Mapping[tuple[str, str], Any]) -> dict[str, Any]:
    """Average the curves over images, for the pictures: by replacement, figure and method, in both directions."""
    found: dict[str, Any] = {}
    for (name, how), curve in curves.items():
        found["removed"] = curve.removed.tolist()
        for number, figure in enumerate(FIGURES[:1] if how == LEARNED else FIGURES[:3]):
            ways = curve.left[number].mean(-1).tolist()
            found.setdefault(how, {}).setdefault(figure, {})[name] = dict(zip(("most", "least"), ways, strict=True))
    return found


def save_measured(work: Path, seed: int, curves: Mapping[tuple[str, str], Curves], margin: float) -> None:
    """Keep the areas of every image's curves, and the smallest share of it that was measured to hold the margin."""
    measured: dict[str, Callable[[Curves], Tensor]] = {
        AREAS: lambda curve: curve.areas,
        KEPT: lambda curve: curve.kept(margin),
    }
    tensors = {
        f"{what}/{name}/{how}": measure(curve).cpu().contiguous()
        for what, measure in measured.items()
        for (name, how), curve in curves.items()
    }
    save_tensors(work / f"measured-{seed}.safetensors", MEASURED, tensors, {"figures": list(FIGURES)})


def read_measured(work: Path, seed: int, wanted: str) -> dict[tuple[str, str], Tensor]:
    """Read one of the things that were measured of every image back, by method and replacement."""
    tensors, _ = load_tensors(work / f"measured-{seed}.safetensors", MEASURED)
    split = ((key.split("/"), value) for key, value in tensors.items())
    return {(name, how): value for (what, name, how), value in split if what == wanted}


def _line(seed: int, found: Mapping[str, Any]) -> str:
    taken = found["keep_set"]["fit_seconds"], found["ranking"]["fit_seconds"]
    return (
        f"seed {seed}: accuracy {found['classifier']['accuracy']:.4f}, keep set in {taken[0]:.0f} s, ranking in "
        f"{taken[1]:.0f} s"
    )
