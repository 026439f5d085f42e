"""Explain inputs with a fitted probe: one forward pass, and one more to verify what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from numbers import Integral
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..errors import ModelError, SettingError
from ..explanation import Explanation, Verification, place_of
from ..gates.probe import Probe
from ..gates.votes import kept
from ..models.pretrained import labels_of
from ..provenance import versions
from ..registry import unknown
from ..tasks.images import ImageClassification
from ..tasks.task import Task
from ..training.fit import Fit
from ..training.step import Look, look
from ..types import Batch, answers
from .chunks import Chunk, arrival, broken_rows, check_fit, chunks, fetch, fetch_each
from .recorded import recorded
from .verify import Measured, check_masked, run_kept, verifications


@torch.no_grad()
def explain(
    fitted: Fit,
    examples: Sequence[Any],
    *,
    depth: int | str = -1,
    verify: bool = True,
    batch_size: int = 64,
    compile: bool = False,
    record: bool = False,
) -> list[Explanation]:
    """Explain each example: scores at every depth, and the kept set at `depth`, verified unless told otherwise.

    A depth is a number, which may count from the end, or the name of its site. Examples of like length go through the
    model together. To `compile` the model's blocks takes a while the first time and pays for many examples; to `record`
    what is computed, on a GPU, pays as soon as a shape of batch comes again.
    """
    check_fit(fitted)
    depth, about = check_depth(fitted.probe, depth), info(fitted)
    found: dict[int, Explanation] = {}
    before: Answer | None = None
    run: Callable[[Batch], Said] = partial(say, fitted, depth, verify)
    if record and not compile:
        run = recorded(fitted, (depth, verify), run)
    with fitted.model.frozen(), fitted.model.compiled(compile):
        for chunk, batch in chunks(fitted, examples, batch_size):
            now = send(chunk, run(batch))
            if before is not None:  # by now on the host, while the device is at work on this one
                found.update(describe(fitted, before, depth, about))
            before = now
        if before is not None:
            found.update(describe(fitted, before, depth, about))
    return [found[row] for row in range(len(examples))]


@dataclass(frozen=True)
class Verdict:
    """What the pass over the kept units gave: divergences, answers before and after, and what is broken."""

    distances: Float[Tensor, " batch"]
    original: dict[str, Tensor]
    masked: dict[str, Tensor]
    broken: dict[str, Tensor]


@dataclass(frozen=True)
class Said:
    """What is said of a batch."""

    scores: Float[Tensor, "depth batch unit"]
    kept: Bool[Tensor, "batch unit"]
    broken: dict[str, Tensor]
    verdict: Verdict | None


@dataclass(frozen=True)
class Answer:
    """What is said of a chunk, on its way to the host; `wait` returns when it is there."""

    chunk: Chunk
    said: Said
    wait: Callable[[], object]


def say(fitted: Fit, depth: int, verify: bool, batch: Batch) -> Said:
    """Look at a batch, score its units at every depth, and run the model on those kept if that is to be verified."""
    seen = look(fitted.model, fitted.task, batch)
    scores = fitted.probe.log_keep(seen.reading)
    chosen = kept(scores[depth]) & batch.valid
    return sum_up(seen, scores, chosen, run_kept(fitted, seen, depth, chosen) if verify else None)


def sum_up(
    seen: Look, scores: Float[Tensor, "depth batch unit"], chosen: Bool[Tensor, "batch unit"], measured: Measured | None
) -> Said:
    """Take what has to be known of a batch from what was computed."""
    verdict = None
    if measured is not None:
        said = answers(seen.original), answers(measured.masked), broken_rows(measured.masked)
        verdict = Verdict(measured.divergence, *said)
    return Said(scores, chosen, broken_rows(seen.original), verdict)


def send(chunk: Chunk, said: Said) -> Answer:
    """Send what is said of a chunk to the host, without waiting for it."""
    verdict = said.verdict
    if verdict is not None:
        others = map(fetch_each, (verdict.original, verdict.masked, verdict.broken))
        verdict = Verdict(fetch(verdict.distances), *others)
    here = Said(fetch(said.scores), fetch(said.kept), fetch_each(said.broken), verdict)
    return Answer(chunk, here, arrival(said.scores))


def describe(
    fitted: Fit, answer: Answer, depth: int, about: dict[str, Any], certified: bool = False
) -> Iterator[tuple[int, Explanation]]:
    """Make one explanation per example, without its padding, and yield it with the example's number."""
    answer.wait()
    chunk, said, verdict = answer.chunk, answer.said, answer.said.verdict
    chunk.check(said.broken)
    measured: list[Verification] | list[None] = [None] * len(chunk.rows)
    if verdict is not None:
        check_masked(verdict.broken)
        measured = verifications(fitted, verdict.distances, verdict.original, verdict.masked)
    # Copies: a part of the batch's memory would keep, and be written to a file with, all of it.
    counts: list[int] = chunk.valid.sum(1).tolist()
    split: Callable[..., list[Tensor]] = torch.ops.aten.split_with_sizes_copy
    real = said.scores[:, chunk.valid]
    check_scores(chunk, real)
    scores, chosen = split(real, counts, 1), split(said.kept[chunk.valid], counts)
    units, depths = fitted.task.units(chunk.examples), fitted.probe.site_names
    each = zip(chunk.rows, chunk.examples, units, scores, chosen, measured, strict=True)
    for row, example, names, score, keep, check in each:
        own = _own(fitted.task, example, check, about)
        yield row, Explanation(tuple(names), depths, score, depth, keep, check, certified, own)


def check_scores(chunk: Chunk, scores: Float[Tensor, "depth _"]) -> None:
    """Refuse scores that are NaN, which would pass for those of units that are dropped."""
    if bool((bad := scores.isnan()).any()):
        place = int(bad.any(0).nonzero()[0])
        row = chunk.rows[int(chunk.valid.nonzero()[place, 0])]
        raise ModelError(
            f"the probe's scores of example {row} are NaN: states that it reads there are larger than the model's "
            "precision holds; run the model in float32 or bfloat16"
        )


def info(fitted: Fit) -> dict[str, Any]:
    """Return what all explanations of a probe share."""
    return {
        "fingerprint": fitted.fingerprint,
        "kind": fitted.config.probe.kind,
        "margin": fitted.config.objective.margin,
        "versions": dict(_versions()),
        **_about(fitted),
    }


@cache
def _versions() -> dict[str, str]:
    """Look the versions up once: reading them from the installed packages takes as long as a small forward pass."""
    return versions()


def _about(fitted: Fit) -> dict[str, list[Any]]:
    """Return what a reader needs to know: the names of labels, the rows and columns of an image, what is seen of it."""
    found = {name: getattr(fitted.task, name, None) for name in ("labels", "grid")}
    found["seen"] = fitted.task.seen if isinstance(fitted.task, ImageClassification) else None
    if found["labels"] is None and fitted.task.labelled:
        found["labels"] = labels_of(fitted.model.model)
    return {name: list(value) for name, value in found.items() if value is not None}


def _own(task: Task, example: Any, check: Verification | None, about: dict[str, Any]) -> dict[str, Any]:
    """Add what is said of one example alone to what all explanations share."""
    own = {"cut": task.cut(example), "labels": {} if check is None else _names(task, example, check)}
    own = {name: said for name, said in own.items() if said}
    return {**about, **own} if own else about  # which most share, and a million would otherwise copy


def _names(task: Task, example: Any, check: Verification) -> dict[str, str]:
    """Name what was decided where there is too much to be the same for all, such as tokens or spans."""
    lists = (each if isinstance(each, list) else [each] for each in [*check.original.values(), *check.masked.values()])
    indices = dict.fromkeys(index for each in lists for index in each if type(index) is int)
    names = dict(task.names(indices) or {}) if indices else {}
    for place, decided in {place_of(decided): decided for decided in (check.original, check.masked)}.items():
        if (said := task.read_out(example, decided)) is not None:
            names[place] = said
    return names


def check_depth(probe: Probe, depth: int | str) -> int:
    """Turn a depth, which may count from the end or be a site's name, into an index."""
    if isinstance(depth, str):
        if depth not in probe.site_names:
            raise SettingError(unknown("depth", depth, probe.site_names))
        return probe.site_names.index(depth)
    if not isinstance(depth, Integral):
        raise SettingError(f"depth must be a number or the name of a site, got {depth!r}")
    if not -probe.depth_count <= depth < probe.depth_count:
        raise SettingError(
            f"depth {depth} does not exist: this probe has {probe.depth_count} "
            f"(0 is '{probe.site_names[0]}', {probe.depth_count - 1} is '{probe.site_names[-1]}')"
        )
    return depth % probe.depth_count
