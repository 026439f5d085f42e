"""Raw attention: the weight a unit's positions receive where the answer is made. It needs no baseline and no gradient.

It belongs to a layer, not to a site: at every depth the scores are the same. Whether attention explains anything is
disputed (Jain and Wallace 2019; Wiegreffe and Pinter 2019), so it stands here as a rival to measure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError
from ..models.attention import asking, attended, attention
from .method import Method, Question


@dataclass(frozen=True)
class Attention(Method):
    """The attention a unit receives, averaged over heads: from `batch.ask`, or without it from every real position.

    Of an encoder-decoder model it is the encoder's attention, whose positions are the input's.
    """

    layer: Annotated[int | Literal["mean"], "counted from 0, or from the end with −1; or the mean of all"] = "mean"

    @torch.no_grad()
    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        with question.model.frozen():
            heads = attention(question.model, question.batch, "attention")
            batch = attended(question.model, question.batch, heads)
        weights = self._of_layer(torch.stack([layer.mean(1) for layer in heads]))
        votes = asking(batch).unsqueeze(-1)  # (batch, query, 1)
        received = torch.where(votes > 0, votes * weights, 0).sum(1)  # (batch, key); padding may ask for NaN
        return torch.where(batch.valid, batch.add_up(received.unsqueeze(-1)).squeeze(-1), 0)

    def _of_layer(self, layers: Float[Tensor, "layer batch query key"]) -> Float[Tensor, "batch query key"]:
        if self.layer == "mean":
            return layers.mean(0)
        if not -len(layers) <= self.layer < len(layers):
            raise SettingError(f"no attention layer {self.layer}: the model has {len(layers)}, counted from 0")
        return layers[self.layer]
