"""What a classifier is trained on: its labels, and what keeps a hidden state close to its word.

    tying   δ/T Σ_t ‖h_t − e_t‖²             over the T words of the batch
    MLM     η · mean of −log P(x_t | ĥ_t)    over the words chosen, with P = softmax(E ĥ_t) and E the embeddings

Tutek and Šnajder (2020). Each is a plain function of what a pass gave, so that they add up in any combination.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import SettingError
from .classifier import Attended, AttentiveClassifier
from .masked_words import Hidden


@dataclass(frozen=True)
class Loss:
    """The terms of one step, kept apart so that logs can show each; weighted, they add up to `total`."""

    label: Float[Tensor, ""]
    tying: Float[Tensor, ""]
    mlm: Float[Tensor, ""]
    total: Float[Tensor, ""]


def label_loss(
    logits: Float[Tensor, "batch label"], labels: Int[Tensor, " batch"], weight: Float[Tensor, " class"] | None = None
) -> Float[Tensor, ""]:
    """Return the mean cross-entropy; `weight` counts each class more or less, with yes and no as classes 1 and 0."""
    logits = _wide(logits)
    if logits.shape[-1] > 1:
        each = F.cross_entropy(logits, labels, reduction="none")
    else:
        each = F.binary_cross_entropy_with_logits(logits.squeeze(-1), labels.to(logits.dtype), reduction="none")
    return (each if weight is None else each * weight[labels]).mean()


def tying_loss(output: Attended) -> Float[Tensor, ""]:
    """Return the mean squared distance between the hidden state of a word and its embedding."""
    check_widths("tying", output.hidden.shape[-1], output.embedded.shape[-1])
    distance = (output.hidden - output.embedded).square().sum(-1)
    return torch.where(output.attended, distance, 0).sum() / output.attended.sum().clamp_min(1)


def mlm_loss(
    model: AttentiveClassifier,
    ids: Int[Tensor, "batch position"],
    real: Int[Tensor, "batch position"],
    hidden: Hidden,
) -> Float[Tensor, ""]:
    """Read texts with hidden words and return how surprising the true ones are, at the chosen positions alone.

    The decoder is the embedding matrix itself, without a bias. Where no word was chosen, the loss is 0.
    """
    check_widths("mlm", model.hidden_width, model.config.width)
    states = model.encode(model.embedding(hidden.input_ids), real.bool())[hidden.chosen]  # (chosen, width)
    logits = _wide(states @ model.embedding.weight.T)
    return F.cross_entropy(logits, ids[hidden.chosen], reduction="sum") / max(1, len(states))


def class_weights(labels: Int[Tensor, " document"], classes: int) -> Float[Tensor, " class"]:
    """Weigh classes up to the most frequent of two, as Jain and Wallace did: 1 for no, n_no / n_yes for yes.

    With more classes, each weighs the mean count divided by its own.
    """
    counts = torch.bincount(labels, minlength=classes).float()
    if classes == 2:
        return torch.stack([torch.ones(()), counts[0] / counts[1].clamp_min(1)])
    return counts.mean() / counts.clamp_min(1)


def _wide(logits: Tensor) -> Tensor:
    """Return logits in float32 where a model computes in less: a loss in bfloat16 has three digits."""
    return logits.float() if logits.dtype == torch.bfloat16 else logits


def check_widths(name: str, hidden: int, width: int) -> None:
    """Refuse to compare hidden states with embeddings of another width."""
    if hidden != width:
        raise SettingError(
            f"{name} compares hidden states of width {hidden} with embeddings of width {width}: choose hidden so that "
            f"they agree, e.g. {width // 2} per direction of a BiLSTM, and not join = concat"
        )
