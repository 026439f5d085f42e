"""What the sentiment study's figures show: kept layers by sentiment and part of speech, one example by every method."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..attribution.attention import Attention
from ..attribution.bottleneck import Bottleneck
from ..attribution.gradient_input import GradientInput
from ..attribution.guan import Guan
from ..attribution.integrated_gradients import IntegratedGradients
from ..attribution.leave_one_out import LeaveOneOut
from ..attribution.method import Method, Question
from ..attribution.per_example import PerExample
from ..objective.divergence import divergence
from ..objective.objective import ObjectiveConfig
from ..tasks.parts_of_speech import at_each, tag
from ..tasks.sst import Sentence
from ..training.fit import Fit
from ..training.free import FreeConfig
from ..training.step import look
from .trained import device

if TYPE_CHECKING:
    from .sentiment import Job, Sentiment

EXAMPLE = "A fast , funny , highly enjoyable movie ."
SENTIMENTS = ("very negative", "negative", "neutral", "positive", "very positive")
ALONE = 8  # sentences whose gates are searched one by one


def prepare_tags(sentences: Sequence[Sentence], work: Path) -> list[Any]:
    """Return the parts of speech of the sentences, tagged once."""
    return tag([sentence.text for sentence in sentences], work / "parts-of-speech.json")


def figures(study: Sentiment, jobs: Sequence[Job]) -> dict[str, Any]:
    """Collect what Figures 4, 5, 6, 12 and 13 show, from the probes of the first seed."""
    first = {job.kind: job for job in jobs if job.seed == 0 and job.margin == jobs[0].margin and not job.change}
    roles = list(unit_roles(study))
    study.model.model.to(device())
    found = {
        "kept_layers": {kind: kept_layers(study.probabilities(job), roles) for kind, job in first.items()},
        "cls_first": cls_first(study, study.probabilities(first["hidden"])),
        "example": {kind: example(study.load(job)) for kind, job in first.items()},
        "alone": alone(study.load(first["input"]), study.texts[:ALONE]),
    }
    study.model.model.to("cpu")
    return found


def unit_roles(study: Sentiment) -> Iterator[tuple[str | None, str | None]]:
    """Yield the sentiment and the part of speech of every unit of the test sentences, one after the other."""
    tags = prepare_tags(study.sentences, study.work)
    for sentence, tagged in zip(study.sentences, tags, strict=True):
        encoded = study.task.tokenizer(sentence.text, truncation=True, return_offsets_mapping=True)
        spans, tokens = encoded["offset_mapping"], study.task.tokenizer.convert_ids_to_tokens(encoded["input_ids"])
        names = at_each(spans, tagged)
        for token, span, name in zip(tokens, spans, names, strict=True):
            special = span[0] == span[1]
            yield (None, token) if special else (SENTIMENTS[sentence.word_labels[word_at(sentence, span[0])]], name)


def word_at(sentence: Sentence, place: int) -> int:
    """Return which word of a sentence the character at `place` belongs to."""
    ends = accumulate(len(word) + 1 for word in sentence.words)
    return next(number for number, end in enumerate(ends) if place < end)


def kept_layers(probability: Tensor, roles: Sequence[tuple[str | None, str | None]]) -> dict[str, Any]:
    """Return at how many depths a unit is kept in the mean, by its sentiment and by its part of speech."""
    layers = probability.sum(0).tolist()
    by_sentiment, by_part = (defaultdict[str, list[float]](list) for _ in range(2))
    for kept, (sentiment, part) in zip(layers, roles, strict=True):
        if sentiment is not None:
            by_sentiment[sentiment].append(kept)
        if part is not None:
            by_part[part].append(kept)
    return {"by_sentiment": _means(by_sentiment), "by_part_of_speech": _means(by_part)}


def _means(groups: Mapping[str, list[float]]) -> dict[str, dict[str, float]]:
    stats = {name: torch.tensor(values) for name, values in groups.items() if len(values) > 1}
    return {name: {"mean": float(v.mean()), "std": float(v.std()), "count": len(v)} for name, v in stats.items()}


def cls_first(study: Sentiment, probability: Tensor) -> float:
    """Return how often the last state of [CLS], the first unit, is more surely kept than any other."""
    counts = [len(units) for units in study.task.units(study.texts)]
    last = probability[-1].split(counts)  # type: ignore[no-untyped-call]
    return float(torch.tensor([bool(row[0] > row[1:].max()) for row in last]).float().mean())


def methods() -> dict[str, Method]:
    """Name the rivals that are shown beside the probe."""
    search = FreeConfig(steps=200)
    return {
        "gradient × input": GradientInput(),
        "integrated gradients": IntegratedGradients(),
        "leave one out": LeaveOneOut(),
        "Schulz et al.": Bottleneck(),
        "Guan et al.": Guan(),
        "attention": Attention(),
        "DiffMask per example": PerExample(ObjectiveConfig(), search),
    }


def example(fitted: Fit) -> dict[str, Any]:
    """Score one sentence by every method at every site."""
    fitted.probe.to(device())
    batch = fitted.task.collate([EXAMPLE]).to(device())
    with torch.no_grad(), fitted.model.frozen():
        ours = fitted.probe.log_keep(look(fitted.model, fitted.task, batch).reading).exp()[:, 0]
    scores = {"DiffMask": ours.tolist()}
    depths = range(fitted.probe.depth_count) if fitted.config.probe.kind == "hidden" else [0]
    for name, method in methods().items():
        asked = (_question(fitted, batch, depth) for depth in depths)
        scores[name] = [method(question)[0].tolist() for question in asked]
    return {"units": fitted.task.units([EXAMPLE])[0], "sites": fitted.probe.site_names, "scores": scores}


def _question(fitted: Fit, batch: Any, depth: int) -> Question:
    baseline = fitted.probe.baseline(depth)
    assert baseline is not None  # this study replaces, it knocks nothing out
    return Question(fitted.model, fitted.task, batch, depth, baseline.detach())


def alone(fitted: Fit, texts: Sequence[str]) -> dict[str, float]:
    """Search gates for each sentence on its own, and compare with the probe at the last depth on the same ones."""
    fitted.probe.to(device())
    batch = fitted.task.collate(texts).to(device())
    with fitted.model.frozen(), torch.no_grad():
        seen = look(fitted.model, fitted.task, batch)
        ours = fitted.probe(seen.reading, fitted.probe.depth_count - 1).hard_keep()
    searched = methods()["DiffMask per example"](_question(fitted, batch, 0)) > 0.5
    result = {}
    with fitted.model.frozen(), torch.no_grad():
        for name, keep in {"probe": ours, "per_example": searched}.items():
            masked = seen.masked_at(fitted.probe.site_name(0), keep, fitted.probe.baseline(0))
            share = (keep & batch.valid).sum(1) / batch.valid.sum(1)
            result[f"{name}_masked"] = float(1 - share.mean())
            result[f"{name}_divergence"] = float(divergence(seen.original, masked).mean())
    return result
