"""What both attention studies share: corpora with word vectors of their own, and attention judged beside a probe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..attention.classifier import AttentiveClassifier, adapt_attentive, make_classifier
from ..attention.own_attention import OwnAttention
from ..attention.presets import Preset
from ..attention.quality import measure_quality
from ..attention.train import predict, train_attentive
from ..attribution.method import Method, Question
from ..attribution.probe import ProbeScores
from ..attribution.random import Random
from ..evaluation.compare import compare
from ..tasks.corpora import read_corpus
from ..tasks.documents import Corpus, Document, DocumentTask
from ..training.config import FitConfig, recipe
from ..training.fit import fit
from .trained import device
from .vector_pool import make_pool, pooled_vectors

METRICS = ("sufficiency", "comprehensiveness", "srg", "hindsight", "swap-flips")
VECTORS = "300-d word vectors trained on the training texts of all corpora (PPMI and SVD): none pretrained could be had"


@dataclass(frozen=True)
class AttentiveSize:
    """How much data is read and how long everything is trained; None is all, or what the preset says."""

    datasets: tuple[str, ...] = ("sst", "20news", "imdb", "ag")
    train: int | None = None
    fewer: tuple[tuple[str, int], ...] = ()  # training documents of single data sets, where `train` is too many
    dev: int | None = None
    test: int | None = None
    epochs: int | None = None
    patience: int | None = None
    bf16: bool = False
    width: int = 300
    hidden: int | None = None
    measured: int = 1000  # test documents whose attention is explained and attacked; accuracy is of all
    state_documents: int = 200  # whose hidden states are differentiated, a backward pass per word
    adversary_epochs: int = 12
    adversary_documents: int = 4000
    probe_steps: int = 1000
    compared: int = 100
    search_steps: int = 500
    pairs: int = 1_000_000
    clusters: int = 1000


SMALL = AttentiveSize(
    ("sst",),
    train=60,
    dev=24,
    test=24,
    epochs=2,
    width=8,
    hidden=4,
    measured=24,
    state_documents=6,
    adversary_epochs=2,
    adversary_documents=60,
    probe_steps=4,
    compared=6,
    search_steps=5,
    pairs=200,
    clusters=8,
)


@dataclass(frozen=True)
class Prepared:
    """A corpus, how it is read, and the vectors its classifiers start from."""

    corpus: Corpus
    task: DocumentTask
    vectors: Float[Tensor, "word width"]

    def describe(self) -> dict[str, Any]:
        """Say how large it is and how it came about."""
        corpus = self.corpus
        sizes = {split: len(getattr(corpus, split)) for split in ("train", "dev", "test")}
        return {**sizes, "words": len(self.task.vocabulary), "note": corpus.note}

    def measured(self, size: AttentiveSize) -> tuple[Document, ...]:
        """Return the test documents whose attention is looked into."""
        return every_nth(self.corpus.test, size.measured)


@cache
def read_part(name: str, directory: Path, size: AttentiveSize) -> Corpus:
    """Read as much of a corpus as a study of this size takes, once per process."""
    corpus = read_corpus(name, directory)
    return replace(
        corpus,
        train=every_nth(corpus.train, dict(size.fewer).get(name, size.train)),
        dev=every_nth(corpus.dev, size.dev),
        test=every_nth(corpus.test, size.test),
    )


def pool_vectors(directory: Path, size: AttentiveSize, path: Path) -> Path:
    """Train the word vectors that all classifiers of a study start from, also on texts they are not trained on."""
    every = replace(size, fewer=())
    return make_pool([read_part(name, directory, every) for name in size.datasets], path, size.width)


@cache
def prepare(name: str, directory: Path, size: AttentiveSize, pool: Path) -> Prepared:
    """Read a corpus, count its words and look up their vectors, once per process."""
    corpus = read_part(name, directory, size)
    texts, dev = ([document.text for document in part] for part in (corpus.train, corpus.dev))
    task = DocumentTask(corpus.vocabulary(), texts, dev, labels=corpus.labels)
    return Prepared(corpus, task, pooled_vectors(pool, task.vocabulary))


def every_nth(documents: Sequence[Document], limit: int | None) -> tuple[Document, ...]:
    """Take `limit` documents evenly spaced within their class, so that classes keep their shares."""
    if limit is None or limit >= len(documents):
        return tuple(documents)
    ordered = sorted(documents, key=lambda document: document.label)
    return tuple(ordered[number * len(ordered) // limit] for number in range(limit))


def train_preset(
    preset: Preset, data: Prepared, size: AttentiveSize, seed: int
) -> tuple[AttentiveClassifier, dict[str, Any]]:
    """Train a preset on a corpus, and return it with how well it does on the test documents."""
    model_config = replace(preset.model, width=size.width, hidden=size.hidden or preset.model.hidden)
    how = preset.training
    patience = how.patience if size.patience is None else size.patience
    training = replace(how, seed=seed, epochs=size.epochs or how.epochs, patience=patience, bf16=size.bf16)
    model = make_classifier(model_config, seed, data.vectors)
    trained = train_attentive(model, data.task, data.corpus.train, data.corpus.dev, training, device=device())
    quality = measure_quality(*predict(model, data.task, data.corpus.test))
    return model, {**asdict(quality), "epoch": trained.epoch + 1, "epochs": len(trained.losses)}


@dataclass(frozen=True)
class AsMany(Method):
    """Another method's order, cut so that it keeps as many units as a probe does: only then do both keep alike much."""

    method: Method
    probe: Method

    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        scores, valid = self.method(question), question.batch.valid
        count = (self.probe(question) > 0.5).sum(1, keepdim=True)
        place = torch.where(valid, scores, -torch.inf).argsort(dim=1, descending=True, stable=True).argsort(1)
        found = torch.where(place < count, 0.75, 0.25) + scores.clamp(0, 1) / 5
        return torch.where(valid, found, 0)


def probe_config(size: AttentiveSize, seed: int) -> FitConfig:
    """Return the recipe of the probe; a short one does not fit its baseline for longer than its gates."""
    config = recipe(kind="input", steps=size.probe_steps, seed=seed)
    given = config.probe.baseline
    baseline = replace(given, ablation_steps=min(given.ablation_steps, size.probe_steps))
    return replace(config, probe=replace(config.probe, baseline=baseline))


def judge_attention(model: AttentiveClassifier, data: Prepared, size: AttentiveSize, seed: int) -> dict[str, Any]:
    """Fit a probe to a classifier's inputs, and judge it beside attention and chance by the same metrics."""
    fitted = fit(adapt_attentive(model), data.task, probe_config(size, seed))
    last = fitted.probe.depth_count - 1  # reads all of the classifier; what it masks is the input
    probe = ProbeScores(fitted.probe, last)
    texts = [document.text for document in every_nth(data.corpus.test, size.compared)]
    methods = {"diffmask": probe, "attention": AsMany(OwnAttention(), probe), "random": AsMany(Random(seed), probe)}
    found = compare(fitted, texts, methods, METRICS, depth=last)
    table = {method: {metric: found.interval(method, metric).mean for metric in METRICS} for method in found.methods}
    return {
        "table": table,
        "better": dict(found.better),
        "failures": len(found.failures),
        "kept": fitted.scores[last].kept,
    }


def faithfulness(judged: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Average over classifiers, and count on how many DiffMask does better by each metric."""
    if not judged:
        return {}
    found: dict[str, Any] = {"classifiers": len(judged), "kept": sum(j["kept"] for j in judged) / len(judged)}
    for metric, better in judged[0]["better"].items():
        pairs = [(j["table"]["diffmask"][metric], j["table"]["attention"][metric]) for j in judged]
        pairs = [(ours, theirs) for ours, theirs in pairs if ours == ours and theirs == theirs]  # NaN: not defined
        sign = 1 if better == "higher" else -1
        drawn = [j["table"]["random"][metric] for j in judged if "random" in j["table"]]  # older runs have none
        chance = [figure for figure in drawn if figure == figure]
        found[metric] = {
            "better": better,
            "diffmask": sum(ours for ours, _ in pairs) / max(1, len(pairs)),
            "attention": sum(theirs for _, theirs in pairs) / max(1, len(pairs)),
            "random": sum(chance) / len(chance) if chance else None,
            "diffmask_better": sum(sign * (ours - theirs) > 0 for ours, theirs in pairs),
            "defined": len(pairs),
        }
    return found
