"""How much of a word is left in its hidden state: mutual information of words and clusters of hidden states, in nats.

    MI = Σ (c_ab / N) ln(N c_ab / (c_a c_b))     c: how often word a stands in cluster b

A static embedding knows its word, so the input side is the word itself, exactly. With few pairs the plain value is far
too high even for labels that have nothing to do with each other, so the mean over shuffled labels stands beside it.
Tutek and Šnajder (2020), after Voita et al. (2019).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import DataError, SettingError
from ..settings import check_choices
from ..tasks.documents import Document, DocumentTask
from ..training.random import NOISE, ORDER, START, generator
from .classifier import AttentiveClassifier
from .evidence import by_length
from .losses import check_widths
from .still import still


@dataclass(frozen=True)
class InformationConfig:
    """What is measured and how."""

    words: Annotated[Literal["frequent", "sampled"], "the most frequent, or drawn from frequency^(3/4)"] = "frequent"
    count: Annotated[int, "words"] = 1000
    clusters: Annotated[int, "of hidden states"] = 1000
    pairs: Annotated[int, "words with their hidden states, at most; the same for all models that are compared"] = (
        1_000_000
    )
    batch_size: Annotated[int, "states per step of k-means"] = 100
    passes: Annotated[int, "of k-means over the states"] = 1
    codebook: Annotated[
        Literal["separate", "shared"], "clusters of the hidden states, or of the embeddings, for both sides"
    ] = "separate"
    shuffles: Annotated[int, "of the labels, for what chance gives"] = 5
    seed: Annotated[int, "of all draws"] = 0

    def __post_init__(self) -> None:
        check_choices(self, "information")
        for name in ("count", "clusters", "pairs", "batch_size", "passes", "shuffles"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} of the mutual information must be at least 1, got {getattr(self, name)}")


@dataclass(frozen=True)
class Information:
    """Mutual information in nats, what shuffled labels give, the difference, and from how many pairs."""

    plain: float
    shuffled: float
    pairs: int

    @property
    def corrected(self) -> float:
        return self.plain - self.shuffled


def measure_information(
    model: AttentiveClassifier,
    task: DocumentTask,
    documents: Sequence[Document],
    config: InformationConfig | None = None,
) -> Information:
    """Measure how much hidden states say about their words."""
    config = config or InformationConfig()
    words, states = gather_states(model, task, documents, config)
    if config.codebook == "shared":
        check_widths("a shared codebook", model.hidden_width, model.config.width)
        used = torch.unique(words)
        centres = cluster(model.embedding.weight.detach()[used.to(model.embedding.weight.device)], config)
        first, second = (
            nearest(model.embedding.weight.detach()[words.to(states.device)], centres),
            nearest(states, centres),
        )
    else:
        first, second = words.to(states.device), nearest(states, cluster(states, config))
    shuffled = [
        mutual_information(first, second[_order(len(second), config.seed, draw).to(second.device)])
        for draw in range(config.shuffles)
    ]
    return Information(mutual_information(first, second), sum(shuffled) / len(shuffled), len(words))


def mutual_information(first: Int[Tensor, " pair"], second: Int[Tensor, " pair"]) -> float:
    """Return the mutual information of two labellings, in nats."""
    a, b = (torch.unique(values, return_inverse=True)[1] for values in (first, second))
    width = int(b.max()) + 1
    joint = torch.bincount(a * width + b, minlength=(int(a.max()) + 1) * width).view(-1, width).double() / len(a)
    apart = joint.sum(1, keepdim=True) * joint.sum(0)
    return max(0.0, float((torch.xlogy(joint, joint) - torch.xlogy(joint, apart)).sum()))


@torch.no_grad()
def gather_states(
    model: AttentiveClassifier, task: DocumentTask, documents: Sequence[Document], config: InformationConfig
) -> tuple[Int[Tensor, " pair"], Float[Tensor, "pair hidden"]]:
    """Return the chosen words of documents with their hidden states; of too many, a random part."""
    chosen = choose_words(task, documents, config)
    device, words, states = model.decoder.weight.device, list[Tensor](), list[Tensor]()
    order = by_length(documents)
    with still(model):
        for start in range(0, len(order), 128):
            batch = task.collate([documents[row].text for row in order[start : start + 128]]).to(device)
            output = model(**batch.inputs)
            kept = output.attended & torch.isin(batch.inputs["input_ids"], chosen.to(device))
            words.append(batch.inputs["input_ids"][kept].cpu())
            states.append(output.hidden[kept].float())
    every, found = torch.cat(words), torch.cat(states)
    if not len(every):
        raise DataError("none of these documents has a word of the vocabulary: nothing can be said about hidden states")
    part = _order(len(every), config.seed, -1)[: config.pairs].sort().values
    return every[part], found[part.to(found.device)]


def choose_words(task: DocumentTask, documents: Sequence[Document], config: InformationConfig) -> Int[Tensor, " word"]:
    """Return the numbers of the words that are looked at; special and unknown words are never among them."""
    every = [number for document in documents for number in task.numbers(document.text)]
    numbers = torch.tensor(every, dtype=torch.long)
    counts = torch.bincount(numbers, minlength=len(task.vocabulary)).double()
    counts[: task.vocabulary.first_word] = 0
    count = min(config.count, int((counts > 0).sum()))
    if not count:
        raise DataError("none of these documents has a word of the vocabulary: nothing can be said about hidden states")
    if config.words == "frequent":
        return counts.argsort(descending=True, stable=True)[:count]
    return torch.multinomial(counts**0.75, count, generator=generator(config.seed, START))


def cluster(states: Float[Tensor, "pair hidden"], config: InformationConfig) -> Float[Tensor, "cluster hidden"]:
    """Return the centres of mini-batch k-means (Sculley 2010), started from distinct states."""
    order = _order(len(states), config.seed, -2).to(states.device)
    centres = (
        torch.unique(states, dim=0) if len(states) <= config.clusters else states[order[: config.clusters]].clone()
    )
    seen = torch.ones(len(centres), device=states.device)  # each centre is its first state
    for turn in range(config.passes):
        order = _order(len(states), config.seed, turn, ORDER).to(states.device)
        for rows in torch.split(order, config.batch_size):
            _move(centres, seen, states[rows])
    return centres


def _move(centres: Tensor, seen: Tensor, states: Tensor) -> None:
    """Move each centre to the mean of all states it was ever nearest to."""
    near = nearest(states, centres)
    added = torch.zeros_like(seen).index_add_(0, near, torch.ones_like(near, dtype=seen.dtype))
    total = torch.zeros_like(centres).index_add_(0, near, states)
    seen += added
    centres += (total - added.unsqueeze(1) * centres) / seen.unsqueeze(1)


def nearest(
    states: Float[Tensor, "pair hidden"], centres: Float[Tensor, "cluster hidden"], size: int = 1 << 15
) -> Int[Tensor, " pair"]:
    """Return the number of the centre nearest to each state."""
    half = centres.square().sum(1) / 2
    return torch.cat([(half - part @ centres.T).argmin(1) for part in torch.split(states, size)])


def _order(count: int, seed: int, draw: int, purpose: int = NOISE) -> Int[Tensor, " pair"]:
    """Return a random order that depends on nothing but its arguments."""
    return torch.randperm(count, generator=generator(seed, purpose, draw + 2))
