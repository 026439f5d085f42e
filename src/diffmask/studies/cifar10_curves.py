"""The curves of the CIFAR-10 study: every method ranks the patches once, and every replacement tries every ranking.

What a removed patch becomes is nobody's own: the mean of the training patches, which methods with a baseline also have
as theirs, zero, or noise. The baseline that the keep set learned is a fourth, reported beside the three.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from ..attribution.chefer import Chefer
from ..attribution.comparisons import Comparisons
from ..attribution.directed import Directed
from ..attribution.grad_cam import GradCam
from ..attribution.gradient_input import GradientInput
from ..attribution.integrated_gradients import IntegratedGradients
from ..attribution.leave_one_out import LeaveOneOut
from ..attribution.method import Method, Question
from ..attribution.random import Random
from ..attribution.ranking import RankScores
from ..attribution.rise import Rise
from ..attribution.rollout import Rollout
from ..evaluation.figure import Figure, left, predict
from ..evaluation.perturbation import area
from ..evaluation.ranking import count_near, places
from ..evaluation.removal import Removal
from ..evaluation.remove_to_baseline import ToBaseline
from ..evaluation.remove_to_mean import ToMean
from ..evaluation.remove_to_noise import ToNoise
from ..evaluation.remove_to_zero import ToZero
from ..gates.probe import Probe
from ..training.draws import unit_noise
from ..training.fit import Fit
from ..training.start import survey
from ..training.step import look
from ..training.validate import in_batches
from .cifar10_fits import Size, compiles

KEEP_SET, RANKING, LAST = "keep set", "ranking", "keep set, last depth"
REFINED, BRIEFLY, ALONE = "ranking and comparisons", "ranking and a few comparisons", "comparisons alone"
OURS = (KEEP_SET, RANKING, LAST, REFINED, BRIEFLY, ALONE)
CHEFER_READ = "chefer, all that is read"  # not the row of [CLS] alone, which is the paper's rule
DISCARDING, DISCARDING_MAX = "rollout, 0.9 discarded", "rollout, max, 0.9 discarded"
REPLACEMENTS = ("mean", "zero", "noise")
LEARNED = "learned baseline"
MOST, LEAST = 0, 1  # the two ways of a curve: which patches go first
FIGURES: tuple[Figure, ...] = ("probability", "log-probability", "negative-kl", "agreement")
STATISTICS = 2048  # training images that say what is usual at the input


@dataclass(frozen=True)
class SetScores(Method):
    """The keep set as a ranking: log P of being kept, summed over the depths or at the last one alone."""

    probe: Probe
    summed: bool = True

    @torch.no_grad()
    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        with question.model.frozen():
            found = self.probe.log_keep(look(question.model, question.task, question.batch).reading)
        return found.sum(0) if self.summed else found[-1]


def all_methods(fitted: Fit, ranking: Fit, size: Size, seed: int) -> dict[str, Method]:
    """List who ranks; those that draw at random do so by the seed."""
    last = ranking.probe.depth_count - 1
    settings = ranking.config.comparison
    compare = partial(
        Comparisons, measure=settings.measure, sizes=settings.sizes, depth=last, batch_size=size.rows, seed=seed
    )
    return {
        KEEP_SET: SetScores(fitted.probe),
        LAST: SetScores(fitted.probe, summed=False),
        RANKING: RankScores(ranking.probe, last),
        REFINED: compare(ranking.probe, size.samples // 2),  # as many passes as RISE takes
        BRIEFLY: compare(ranking.probe, max(1, size.samples // 20)),
        ALONE: compare(None, size.samples // 2),
        **rivals(size),
        "rise": Rise(size.samples, batch_size=size.rows, seed=seed),
        "random": Random(seed=seed),
    }


def rivals(size: Size) -> dict[str, Method]:
    """List the rivals that draw nothing, in every form that may be the strongest: the best one counts."""
    # With a gradient, a row takes much more memory.
    known: dict[str, Method] = {
        "gradient-input": GradientInput(),
        "integrated-gradients": IntegratedGradients(size.steps, size.rows // 8),
        "leave-one-out": LeaveOneOut(batch_size=size.rows),
    }
    return {
        "grad-cam": GradCam(),
        "rollout": Rollout(),
        DISCARDING: Rollout(discard=0.9),  # as it was run for the paper's Table 1
        DISCARDING_MAX: Rollout("max", 0.9),  # as its authors' code is called most
        "chefer": Chefer(),
        CHEFER_READ: Chefer("read"),
        **known,
        **{f"{name}, signed": Directed(method) for name, method in known.items()},
    }


def all_removals(rows: int) -> dict[str, Removal]:
    """List what a removed patch becomes."""
    return {
        "mean": ToMean(STATISTICS, rows),
        "zero": ToZero(rows),
        "noise": ToNoise(examples=STATISTICS, rows=rows),
        LEARNED: ToBaseline(rows),
    }


def rank(
    methods: Mapping[str, Method], fitted: Fit, examples: Sequence[int], size: Size
) -> dict[str, Float[Tensor, "image unit"]]:
    """Score the patches of all images by every method, with the mean patch in place of a missing one."""
    mean = mean_patch(fitted)
    parts = [
        {name: score(method, question, size) for name, method in methods.items()}
        for question in questions(fitted, examples, size.batch, mean)
    ]
    return {name: torch.cat([part[name] for part in parts]) for name in methods}


def score(method: Method, question: Question, size: Size) -> Float[Tensor, "image unit"]:
    """Ask a method; blocks are compiled for those that run the model very often, and look at nothing inside of it."""
    often = isinstance(method, Rise | Comparisons)
    with question.model.compiled(often and compiles(size, question.model)):
        return method(question).detach().float()


def mean_patch(fitted: Fit) -> Float[Tensor, " hidden"]:
    """Return the mean state of the training patches before position."""
    task, model = fitted.task, fitted.model
    with model.frozen():
        return survey(model, task, in_batches(task, task.train[:STATISTICS], 256, model.device)).means[0]


def questions(fitted: Fit, examples: Sequence[int], batch: int, baseline: Tensor | None) -> Iterator[Question]:
    """Ask about the input, batch by batch."""
    for start in range(0, len(examples), batch):
        yield Question(fitted.model, fitted.task, fitted.task.collate(examples[start : start + batch]), 0, baseline)


@dataclass(frozen=True)
class Curves:
    """What is left of the predictions of all images by one ranking: most important first, then least."""

    removed: Float[Tensor, " point"]
    left: Float[Tensor, "figure way point image"]

    def kept(self, margin: float) -> Float[Tensor, " image"]:
        """Return the smallest share that was measured to hold the margin as each image lost its least important first.

        Shares are those of the curve's points: a finer search could only find smaller ones.
        """
        distance = -self.left[FIGURES.index("negative-kl"), LEAST]  # (point, image)
        shares = (1 - self.removed).unsqueeze(1).expand_as(distance)
        return shares.masked_fill(distance > margin, 1.0).amin(0)

    @property
    def areas(self) -> Float[Tensor, "figure way image"]:
        figures, ways, points, images = self.left.shape
        flat = self.left.permute(2, 0, 1, 3).reshape(points, -1)
        removed = self.removed.unsqueeze(1).expand_as(flat)
        return area(removed, flat).view(figures, ways, images).float()


def measure_curves(
    scores: Mapping[str, Float[Tensor, "image unit"]], fitted: Fit, examples: Sequence[int], size: Size
) -> dict[tuple[str, str], Curves]:
    """Remove more and more patches by each ranking and replacement, the same number from every image."""
    learned = fitted.probe.baseline(0)
    assert learned is not None  # images are never knocked out
    removals, parts = all_removals(size.rows), dict[tuple[str, str], list[Tensor]]()
    for number, question in enumerate(questions(fitted, examples, size.batch, learned.detach())):
        some = slice(number * size.batch, (number + 1) * size.batch)
        with fitted.model.compiled(compiles(size, fitted.model)):
            found = measure_batch({name: row[some] for name, row in scores.items()}, removals, question, size.points)
        for key, each in found.items():
            parts.setdefault(key, []).append(each)
    shares = torch.stack([count_near(s, question.batch.valid[:1])[0] for s in _shares(size.points)]).cpu()
    removed = shares / question.batch.valid.shape[1]
    return {key: Curves(removed, torch.cat(found, dim=-1)) for key, found in parts.items()}


def measure_batch(
    scores: Mapping[str, Float[Tensor, "image unit"]],
    removals: Mapping[str, Removal],
    question: Question,
    points: int,
) -> dict[tuple[str, str], Float[Tensor, "figure way point image"]]:
    """Return what is left of the predictions of some images by each ranking and replacement."""
    original, noise = predict(question), unit_noise(question.batch)[0]
    found: dict[tuple[str, str], Tensor] = {}
    for name, ranking in scores.items():
        keeps = keeps_of(ranking, noise, question, points)
        for replacement, removal in removals.items():
            masked = removal(question, keeps)
            lines = torch.stack([torch.stack([left(original, m, f) for m in masked]) for f in FIGURES]).cpu()
            found[name, replacement] = lines.view(len(FIGURES), 2, points, -1)
    return found


def keeps_of(
    scores: Float[Tensor, "batch unit"], noise: Float[Tensor, "batch unit"], question: Question, points: int
) -> Float[Tensor, "copy batch unit"]:
    """Keep all but the first so many patches of an order, for every point, most important first and least first."""
    valid = question.batch.valid
    counts = torch.stack([count_near(share, valid) for share in _shares(points)]).unsqueeze(-1)
    orders = [places(way, valid, noise) for way in (scores, -scores)]
    return torch.cat([(order >= counts).float() for order in orders])


def _shares(points: int) -> list[float]:
    return torch.linspace(0, 1, points, dtype=torch.double).tolist()
