"""Fit a probe: find, once per model, what its predictions can do without."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ..errors import DataError, SettingError
from ..gates.probe import Probe
from ..models.adapter import Adapter
from ..models.adapting import check_tokenizer, doubt_tokenizer
from ..models.pretrained import labels_of
from ..models.running import reads_twice
from ..models.vision import projection_of
from ..objective.divergence import divergence
from ..tasks.images import ImageClassification
from ..tasks.task import Task
from ..tasks.text_task import TextTask
from ..types import Prediction, split_prediction
from .config import FitConfig, recipe
from .processes import accelerate
from .validate import DepthScore

log = logging.getLogger(__name__)

MOVED = 0.02  # nats by which bfloat16 may move a prediction
CHECKPOINT, MEMBER = "checkpoint.safetensors", "member-"  # a committee has a directory for each of its members


def checkpoints(directory: Path) -> list[Path]:
    """Find what fits have left in a directory to go on from."""
    return sorted(directory.glob(CHECKPOINT)) + sorted(directory.glob(f"{MEMBER}*/{CHECKPOINT}"))


@dataclass(frozen=True)
class Fit:
    """A fitted probe with what it belongs to, how good it is at each depth without noise, and how it got there."""

    model: Adapter
    task: Task
    probe: Probe
    config: FitConfig
    scores: list[DepthScore]
    restarts: list[int]
    history: list[dict[str, Any]]
    fingerprint: str
    # Of what it computes on a GPU; another probe or another margin makes its own.
    recordings: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def feasible(self) -> bool:
        """Whether the thresholded masks hold the constraint at every depth."""
        return all(score.feasible(self.config.objective) for score in self.scores)

    def save_pretrained(self, directory: str | Path, base: str | None = None, revision: str | None = None) -> None:
        """Write the probe, and what it belongs to, into a directory that `diffmask.from_pretrained` reads.

        The model is written down by its name, or as `base` on the Hub or on disk, and is not saved itself.
        """
        from .pretrained import save_pretrained  # which needs this file

        save_pretrained(self, directory, base, revision)

    def push_to_hub(self, repository: str, private: bool | None = None, token: str | None = None) -> str:
        """Save into a repository of the Hub, made if it is not there, and return where it is."""
        from .pretrained import push_to_hub

        return push_to_hub(self, repository, private, token=token)


def fit(
    model: Adapter,
    task: Task,
    config: FitConfig | str | None = None,
    *,
    directory: str | Path | None = None,
    progress: bool = False,
) -> Fit:
    """Fit a probe to a frozen model; `config` may be the name of a recipe.

    With a `directory`, the state is written there as it goes; the same call after a crash or a kill goes on from it
    and ends with the same weights, with a `cache` up to rounding. The model is as it was, and where it was, when this
    returns.
    """
    settings = settings_of(config)
    check_fit(model, task)
    if isinstance(task, TextTask):  # whose batches are padded
        check_each("training", task.train, task.encoded)
        check_each("validation", task.validation[: settings.validation_limit], task.encoded)
        doubt_padding(model, task)
    doubt_reading(model, settings)
    place = None if directory is None else Path(directory)
    if settings.probe.members > 1:
        from .committee import fit_committee  # which needs this file

        fitted = fit_committee(model, task, settings, place, progress)
    else:
        fitted = fit_alone(model, task, settings, place, progress)
    if not fitted.feasible:
        worst = max(fitted.scores, key=lambda score: score.divergence)
        log.warning(
            "no probe held the constraint at every depth; the last one has divergence %.3g at depth %d: "
            "train longer, or certify each explanation",
            *(worst.divergence, worst.depth),
        )
    return fitted


def fit_alone(model: Adapter, task: Task, settings: FitConfig, directory: Path | None, progress: bool) -> Fit:
    """Fit one probe, whatever comes of it."""
    from .bar import Bar  # late: these take long to import, and explaining does without
    from .trainer import Trainer

    accelerator, home = accelerate(), model.device
    checkpoint = None if directory is None else directory / CHECKPOINT
    with ExitStack() as stack:
        stack.enter_context(torch.enable_grad())  # a notebook about explanations may have switched gradients off
        stack.enter_context(model.frozen())
        stack.enter_context(model.on(accelerator.device))
        stack.enter_context(model.computing(settings.dtype))
        stack.enter_context(model.compiled(settings.compile))
        stack.enter_context(model.recomputing(settings.recompute))
        bar = stack.enter_context(Bar("fit", settings.steps, progress and accelerator.is_main_process))
        run, scores = Trainer(model, task, settings, accelerator, checkpoint).run_to_end(bar)
    now, probe = run.progress, run.probe.to(home)
    return Fit(model, task, probe, settings, scores, now.restarts, now.history, run.fingerprint)


def settings_of(config: FitConfig | str | None) -> FitConfig:
    """Return the settings that were given, by themselves or as the name of a recipe."""
    if isinstance(config, FitConfig):
        return config
    if config is not None and not isinstance(config, str):
        raise SettingError(
            f"fit takes the name of a recipe or its settings, got {type(config).__name__}: pass e.g. "
            'recipe("text", margin=0.1, steps=1000)'
        )
    return recipe(config or "default")


def check_fit(model: Adapter, task: Task) -> None:
    """Refuse what cannot be fitted, before anything runs."""
    if torch.is_inference_mode_enabled():
        raise SettingError("a fit learns by gradients, of which torch.inference_mode() knows none: call it outside")
    if not isinstance(model, Adapter):
        raise SettingError(f"fit takes an adapted model, got {type(model).__name__}: pass diffmask.adapt(model)")
    if not isinstance(task, Task):
        raise SettingError(f"fit takes a task, got {type(task).__name__}: wrap tensors in diffmask.TensorTask")
    if (tokenizer := getattr(task, "tokenizer", None)) is not None:
        check_tokenizer(model.model, tokenizer)
        if tokenizer is not model.processor:  # of that one, whoever adapted the model has been warned
            doubt_tokenizer(model.model, tokenizer)
    check_labels(getattr(task, "labels", None), labels_of(model.model))
    check_patch(model, task)
    if (positions := model.positions) is not None:
        task.limit(positions)
    if len(task.train) == 0 or len(task.validation) == 0:
        raise DataError("a fit needs at least one training and one validation example")


def check_each(part: str, examples: Sequence[Any], encode: Callable[[Any], object]) -> None:
    """Say which text cannot be used; what is encoded here is remembered for the fit."""
    for number, example in enumerate(examples):
        try:
            encode(example)
        except DataError as error:
            raise DataError(f"{part} example {number}: {error}") from error


def check_patch(model: Adapter, task: Task) -> None:
    """Refuse patches of another shape than the model's: as many of them would fit, and every name would be wrong."""
    if not isinstance(task, ImageClassification) or model.patch is None or task.patch == model.patch:
        return
    # A map that was named by hand comes after the model's own patches, and one of its places stands for several.
    conv, cut, own = projection_of(model.model), task.patch, model.patch
    if not all(site.layout == "grid" and site.module is not conv for site in model.sites):
        raise SettingError(
            f"the task cuts images into patches of {cut[0]}×{cut[1]} pixels, and {type(model.model).__name__} into "
            f"{own[0]}×{own[1]}: pass patch=adapt(model).patch to the task"
        )


def doubt_reading(model: Adapter, settings: FitConfig) -> None:
    """Warn where a decoder reads the text again, and what is masked leaves that reading as it is."""
    masked = model.sites if settings.probe.kind == "hidden" else model.sites[:1]
    if reads_twice(model.model) and (sites := [site.name for site in masked if site.echo is None]):
        log.warning(
            "%s reads the text again in its decoder: what is dropped at %s can still be read there; an explanation of "
            "its inputs, kind input from the embeddings on, drops it in both",
            *(type(model.model).__name__, ", ".join(sites)),
        )


@torch.no_grad()
def check_answer(model: Adapter, task: Task) -> None:
    """Let the model answer two short examples, so that a task that cannot read its answer is refused early."""
    some, _ = _short(task)
    with model.frozen():
        _answer(model, task, some[:2])


@torch.no_grad()
def doubt_padding(model: Adapter, task: Task) -> None:
    """Warn of a model that says another thing of an example beside a longer one: it looks at padding."""
    some, lengths = _short(task)
    longer = [example for example, length in zip(some, lengths, strict=True) if length > lengths[0]]
    if not longer:
        return
    with model.frozen():
        beside, _ = split_prediction(_answer(model, task, [some[0], longer[0]]), 2)
        alone = _answer(model, task, some[:1])
    shapes = [{name: head.raw.shape for name, head in found.items()} for found in (alone, beside)]
    if shapes[0] == shapes[1] and (moved := float(divergence(alone, beside))) > MOVED:
        log.warning(
            "%s says another thing of an example beside a longer one (divergence %.3g): it looks at padding, which is "
            "on the right, so explain examples of one length together, or one by one (batch_size=1)",
            *(type(model.model).__name__, moved),
        )


def _short(task: Task) -> tuple[list[Any], list[int]]:
    """Return some training examples, the shortest first, and how long they are."""
    some = list(task.train[:16])
    lengths = task.lengths(some) or [0] * len(some)
    rows = sorted(range(len(some)), key=lengths.__getitem__)
    return [some[row] for row in rows], [lengths[row] for row in rows]


def _answer(model: Adapter, task: Task, examples: Sequence[Any]) -> Prediction:
    batch = task.collate(examples).to(model.device)
    return task.read(model(batch), batch)


def check_labels(labels: Sequence[str] | None, own: Sequence[str] | None) -> None:
    """Refuse one name for two labels, and the model's own names in another order; other names rename its labels."""
    if labels is None or list(labels) == own:  # a model may itself call two things the same, as ImageNet's do
        return
    if twice := next((label for label in labels if list(labels).count(label) > 1), None):
        raise DataError(f"labels names two of them '{twice}' ({', '.join(labels)}): give each a name of its own")
    given, known = ([label.casefold() for label in names] for names in (labels, own or ()))
    if given != known and sorted(given) == sorted(known):
        raise DataError(
            f"labels names {', '.join(labels)}, and the model has them as {', '.join(own or ())}: write them in the "
            "model's order, or leave labels out"
        )
