"""What every word says, so that any other attention can be answered for without running the model again.

The decoder is linear and the weights of a document add up to 1, so with s_t = w·h_t + b its answer is z = Σ α_t s_t:
the mean of what each word says, and probability σ(z). Uniform, permuted and adversarial attention need α and s alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..errors import DataError, ModelError
from ..tasks.documents import Document, DocumentTask
from ..training.draws import content_seeds
from .classifier import Attended, AttentiveClassifier
from .still import still


@dataclass(frozen=True)
class Evidence:
    """Documents as their decoder sees them, in float64. `seeds` are drawn from the words of each document."""

    attention: Float[Tensor, "document word"]
    scores: Float[Tensor, "document word"]
    says: Float[Tensor, "document word"]
    attended: Bool[Tensor, "document word"]
    labels: Int[Tensor, " document"]
    seeds: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.attended)

    @property
    def margin(self) -> Float[Tensor, " document"]:
        return self.weigh(self.attention)

    @property
    def probability(self) -> Float[Tensor, " document"]:
        return self.margin.sigmoid()

    @property
    def decided(self) -> Int[Tensor, " document"]:
        return (self.margin > 0).long()

    def to(self, device: torch.device | str) -> Evidence:
        """Move every tensor to a device."""
        return self._with(lambda tensor: tensor.to(device), self.seeds)

    def part(self, rows: slice) -> Evidence:
        """Take some of the documents."""
        return self._with(lambda tensor: tensor[rows], self.seeds[rows])

    def weigh(self, attention: Float[Tensor, "*draw document word"]) -> Float[Tensor, "*draw document"]:
        """Return the margin under another attention."""
        return (torch.where(self.attended, attention, 0) * self.says).sum(-1)

    def _with(self, change: Callable[[Tensor], Tensor], seeds: tuple[int, ...]) -> Evidence:
        attention, scores, says = change(self.attention), change(self.scores), change(self.says)
        return Evidence(attention, scores, says, change(self.attended), change(self.labels), seeds)


@torch.no_grad()
def gather_evidence(
    model: AttentiveClassifier, task: DocumentTask, documents: Sequence[Document], batch_size: int = 128
) -> Evidence:
    """Read documents, and return their evidence in their order, padded on the right, on the CPU."""
    order = by_length(documents)
    longest = max(len(task.units([document.text])[0]) for document in documents)
    shape, seeds = (len(documents), longest), [0] * len(documents)
    attention, scores, says = (torch.zeros(shape, dtype=torch.double) for _ in range(3))
    attended = torch.zeros(shape, dtype=torch.bool)
    device = model.decoder.weight.device
    with still(model):
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            batch = task.collate([documents[row].text for row in rows]).to(device)
            output = model(**batch.inputs)
            for whole, part in zip(
                (attention, scores, says, attended),
                to_left(output.attended, output.attention, output.scores, word_margins(model, output)),
                strict=True,
            ):
                whole[rows, : part.shape[1]] = part.to(whole)
            for row, seed in zip(rows, content_seeds(batch), strict=True):
                seeds[row] = seed
    labels = torch.tensor([document.label for document in documents])
    return Evidence(attention, scores, says, attended, labels, tuple(seeds))


def by_length(documents: Sequence[Document]) -> list[int]:
    """Return the rows of documents, the shortest first; there must be one."""
    if not documents:
        raise DataError("there are no documents to measure: give at least one")
    return sorted(range(len(documents)), key=lambda row: documents[row].length)


def to_left(attended: Bool[Tensor, "document position"], *values: Float[Tensor, "document position"]) -> list[Tensor]:
    """Move what stands at attended positions to the left, in order, with 0 behind; last, say where something is."""
    order = (~attended).int().argsort(dim=1, stable=True)[:, : max(1, int(attended.sum(1).max()))]
    there = attended.gather(1, order)
    return [*(torch.where(there, value.gather(1, order), 0) for value in values), there]


def word_margins(model: AttentiveClassifier, output: Attended) -> Float[Tensor, "document position"]:
    """Return s_t, the answer that all weight on one word would give."""
    return margins(model, output.hidden)


def margins(model: AttentiveClassifier, states: Float[Tensor, "*row hidden"]) -> Float[Tensor, "*row"]:
    """Return how far class 1 is ahead of class 0 for hidden states or contexts."""
    weight, bias = direction(model)
    states = states.to(torch.promote_types(states.dtype, torch.float32))  # half precision ties too much
    return states @ weight.to(states) + bias.to(states)


def direction(model: AttentiveClassifier) -> tuple[Float[Tensor, " hidden"], Float[Tensor, ""]]:
    """Return the weight and bias of the margin between class 1 and class 0."""
    weight, bias = model.decoder.weight, model.decoder.bias
    if len(weight) > 2:
        raise ModelError(
            f"these measures ask how far class 1 is ahead of class 0, and this classifier has {len(weight)} classes: "
            "train one with labels = 1 or 2"
        )
    return (weight[0], bias[0]) if len(weight) == 1 else (weight[1] - weight[0], bias[1] - bias[0])
