"""A classifier that attends: embed words, encode them, score every hidden state, weigh, add up, decide.

e_t = embedding(x_t)    h_t = encoder(e)_t    α = projection(alignment(h))    c = Σ α_t h_t    logits = W c + b
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..errors import ModelError, SettingError
from ..models.adapter import Adapter
from ..models.sites import Site
from . import ALIGNMENTS, ENCODERS, PROJECTIONS
from .config import AttentiveConfig
from .projections import Projection, sparsegen


@dataclass(frozen=True)
class Attended:
    """Everything one pass computes; a loss or a measure takes what it needs."""

    logits: Float[Tensor, "batch label"]
    attention: Float[Tensor, "batch position"]
    scores: Float[Tensor, "batch position"]
    context: Float[Tensor, "batch hidden"]
    hidden: Float[Tensor, "batch position hidden"]
    embedded: Float[Tensor, "batch position width"]
    attended: Bool[Tensor, "batch position"]


class Joined(nn.Module):
    """Gives the hidden states: what the encoder made, beside the embedding, added to it, or alone."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(
        self, state: Float[Tensor, "batch position state"], embedded: Float[Tensor, "batch position width"]
    ) -> Float[Tensor, "batch position hidden"]:
        if self.how == "concat":
            return torch.cat([state, embedded], dim=-1)
        return state + embedded if self.how == "residual" else state


class AttentiveClassifier(nn.Module):
    """The classifier of an `AttentiveConfig`; `vectors` are the embeddings to start from.

    Where nothing is attended to (a text of start and end alone), the weights and the context are 0, and the bias of the
    decoder answers.
    """

    unattended: Tensor

    def __init__(self, config: AttentiveConfig, vectors: Float[Tensor, "word width"] | None = None) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.words, config.width, padding_idx=0)
        encoder = ENCODERS.get(config.encoder)(config.width, config.hidden, config.layers, config.dropout)
        self.entry, self.layers, self.join = encoder.entry, encoder.layers, Joined(config.join)
        self.hidden_width = _joined_width(config, encoder.width)
        self.alignment = ALIGNMENTS.get(config.alignment)(self.hidden_width, config.query)
        self.decoder = nn.Linear(self.hidden_width, config.labels)
        self.project = projection_of(config)
        self.register_buffer("unattended", torch.tensor(config.unattended, dtype=torch.long), persistent=False)
        if vectors is not None:
            self._start_from(vectors)
        self.embedding.weight.requires_grad_(not config.freeze)

    def forward(
        self,
        input_ids: Int[Tensor, "batch position"],
        attention_mask: Tensor | None = None,
        attention: Float[Tensor, "batch position"] | None = None,
    ) -> Attended:
        """Classify texts. Given an `attention`, weigh by that instead; what it gives to unattended positions is 0."""
        real = real_positions(input_ids, attention_mask)
        attended = real & ~torch.isin(input_ids, self.unattended)
        embedded = self.embedding(input_ids)
        hidden = self.encode(embedded, real)
        scores = self.alignment(hidden)
        weights = self.project(scores, attended) if attention is None else torch.where(attended, attention, 0)
        # Padding may hold anything, and 0 · NaN is NaN.
        context = (weights.to(hidden.dtype).unsqueeze(-1) * torch.where(attended.unsqueeze(-1), hidden, 0)).sum(1)
        return Attended(self.decoder(context), weights, scores, context, hidden, embedded, attended)

    def encode(
        self, embedded: Float[Tensor, "batch position width"], real: Bool[Tensor, "batch position"]
    ) -> Float[Tensor, "batch position hidden"]:
        """Return the hidden states of embedded words."""
        state = self.entry(embedded, real)
        for layer in self.layers:
            state = layer(state, real)
        return self.join(state, embedded)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.embedding

    def _start_from(self, vectors: Tensor) -> None:
        if vectors.shape != self.embedding.weight.shape:
            raise SettingError(
                f"vectors have shape {tuple(vectors.shape)} and the model takes {tuple(self.embedding.weight.shape)}, "
                "a row per word: train or read them for this vocabulary and width"
            )
        with torch.no_grad():
            self.embedding.weight.copy_(vectors)


def make_classifier(
    config: AttentiveConfig, seed: int = 0, vectors: Float[Tensor, "word width"] | None = None
) -> AttentiveClassifier:
    """Make a classifier whose first weights depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return AttentiveClassifier(config, vectors)


def adapt_attentive(model: AttentiveClassifier) -> Adapter:
    """Name the places where words can be replaced: their embeddings, the layers between, and the hidden states."""
    between = [Site(f"layer {i}", layer) for i, layer in enumerate(list(model.layers)[:-1])]
    return Adapter(model, [Site("embedding", model.embedding), *between, Site("hidden states", model.join)])


def real_positions(ids: Int[Tensor, "batch position"], mask: Tensor | None) -> Bool[Tensor, "batch position"]:
    """Say which positions hold a word: those the mask names, or else all that are not padding, number 0."""
    if mask is None:
        return ids != 0
    if mask.shape != ids.shape:
        raise ModelError(
            f"AttentiveClassifier takes an attention_mask of shape {tuple(ids.shape)}, 1 at every word, got "
            f"{tuple(mask.shape)}: removal = knockout is for Transformers; use removal = baseline"
        )
    return mask.bool()


def projection_of(config: AttentiveConfig) -> Projection:
    """Return the projection a configuration names, its λ filled in."""
    found: Projection = PROJECTIONS.get(config.projection)
    return partial(sparsegen, sparsity=config.sparsity) if config.projection == "sparsegen" else found


def _joined_width(config: AttentiveConfig, width: int) -> int:
    if config.join == "residual" and width != config.width:
        raise SettingError(
            f"join = residual adds hidden states of width {width} to embeddings of width {config.width}: choose hidden "
            f"so that they agree, e.g. {config.width // 2} per direction of a BiLSTM"
        )
    return width + config.width if config.join == "concat" else width
