"""Measure the importance of words in every way on documents, and how it agrees with the attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..objective.ranking import kendall_rows
from ..tasks.documents import Document, DocumentTask
from .agreement import Agreement, agree, normalised_entropy, truncate
from .classifier import AttentiveClassifier
from .evidence import by_length
from .hidden_importance import hidden_gradients, hidden_left_out, shares
from .input_importance import input_gradients, inputs_left_out, state_gradients
from .still import still

KINDS = ("gradient-inputs", "left-out-inputs", "gradient-states", "left-out-states")
CUTS = (1.0, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02)  # shares of the words that truncated attention keeps

PerDocument = Float[Tensor, " document"]


@dataclass(frozen=True)
class Importance:
    """Figures per document, in the order of the documents.

    `agreement` and `entropy` are by kind of importance; `truncated` is what τ-b with importance of inputs would be if
    the attention kept only that share of the words, by share and kind: what ties alone do.
    """

    agreement: Mapping[str, Agreement]
    entropy: Mapping[str, PerDocument]
    attention_entropy: PerDocument
    truncated: Mapping[float, Mapping[str, PerDocument]]
    support: Int[Tensor, " document"]
    words: Int[Tensor, " document"]


def measure_importance(
    model: AttentiveClassifier, task: DocumentTask, documents: Sequence[Document], batch_size: int = 128
) -> Importance:
    """Measure importance of inputs and hidden states, by gradient and by leaving out."""
    order = by_length(documents)
    parts = [
        _measure(model, task, [documents[row].text for row in order[start : start + batch_size]])
        for start in range(0, len(order), batch_size)
    ]
    back = torch.tensor(order).argsort()

    def joined(*path: str | float) -> Tensor:
        return torch.cat([part[path] for part in parts]).cpu()[back]

    names = ("every", "support", "null", "untied")
    return Importance(
        {kind: Agreement(*(joined(kind, name) for name in names)) for kind in KINDS},
        {kind: joined(kind, "entropy") for kind in KINDS},
        joined("attention"),
        {cut: {kind: joined(kind, cut) for kind in KINDS[:2]} for cut in CUTS},
        joined("support"),
        joined("words"),
    )


def state_entropy(
    model: AttentiveClassifier, task: DocumentTask, documents: Sequence[Document], batch_size: int = 128
) -> PerDocument:
    """Return how evenly words share in a hidden state, averaged over the hidden states of each document."""
    order, found = by_length(documents), torch.zeros(len(documents), dtype=torch.double)
    device = model.decoder.weight.device
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        batch = task.collate([documents[row].text for row in rows]).to(device)
        total = torch.zeros(len(rows), dtype=torch.double, device=device)
        for sizes, known in state_gradients(model, batch.inputs):
            each = normalised_entropy(shares(sizes, batch.valid), batch.valid)
            total += torch.where(known, each, 0)  # NaN for a document of one word
        found[rows] = (total / batch.valid.sum(1)).cpu()
    return found


def _measure(
    model: AttentiveClassifier, task: DocumentTask, texts: Sequence[str]
) -> dict[tuple[str | float, ...], Tensor]:
    """Measure a batch: each figure under its path."""
    batch = task.collate(texts).to(model.decoder.weight.device)
    with torch.no_grad(), still(model):
        output = model(**batch.inputs)
    attended, attention, scores = output.attended, output.attention.double(), output.scores.double()
    sizes = {
        KINDS[0]: input_gradients(model, batch.inputs)[0],
        KINDS[1]: inputs_left_out(model, batch.inputs),
        KINDS[2]: hidden_gradients(model, output).norm(dim=-1),
        KINDS[3]: hidden_left_out(model, output),
    }
    words, support = attended.sum(1), (attended & (attention > 0)).sum(1)
    found: dict[tuple[str | float, ...], Tensor] = {
        ("attention",): normalised_entropy(attention, attended),
        ("support",): support,
        ("words",): words,
    }
    for kind, size in sizes.items():
        share = shares(size.double(), attended)
        found[kind, "entropy"] = normalised_entropy(share, attended)
        compared = agree(attention, scores, share, attended)
        found |= {(kind, name): value for name, value in vars(compared).items()}
        for cut in CUTS if kind in KINDS[:2] else ():
            kept = truncate(attention, attended, (cut * words).ceil().long().clamp_min(1))
            found[kind, cut] = kendall_rows(kept, share, attended)
    return found
