"""Attention rollout: how much of each position's state flows to where the answer is made, if attention were the flow.

Abnar and Zuidema (2020). Half of a layer's output comes through attention, half through the residual connection:

    Â = rows of (A + I) / 2, each divided by its sum        R = Â_last ··· Â_first        score = the asking row of R

The row that asks is where the answer is read after the last layer, such as [CLS]. At a site inside the model only the
layers after it count: what flows from the states there. It needs no baseline, and does not know what was answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..errors import SettingError
from ..models.attention import asking, attended
from ..models.flow import asked_share, attend_after, visible
from ..settings import check_choices
from .method import Method, Question


@dataclass(frozen=True)
class Rollout(Method):
    """The share of the flow that starts at a unit, into `batch.ask` or, without it, where the answer is read."""

    heads: Annotated[Literal["mean", "max", "min"], "how the heads of a layer become one"] = "mean"
    discard: Annotated[float, "share of the smallest weights of each layer and example that is set to 0"] = 0.0

    def __post_init__(self) -> None:
        check_choices(self, "rollout")
        if not 0 <= self.discard < 1:
            raise SettingError(f"rollout.discard must lie in [0, 1), got {self.discard}: it is the share left out")

    @torch.no_grad()
    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        with question.model.frozen():
            found = attend_after(question.model, question.batch, question.depth, "rollout").layers
            layers = [layer.float().to(question.batch.valid.device) for layer in found]
            batch = attended(question.model, question.batch, layers)
            known = batch is not question.batch  # an image with a prefix, which now says where it is read
            flow = asking(batch) if known else asked_share(question.model, batch)
        flow, seen = flow.unsqueeze(1), visible(batch, question.model.causal)  # (batch, 1, position)
        for layer in reversed(layers):
            flow = flow @ self._mixing(layer, seen)
        return torch.where(batch.valid, batch.add_up(flow.transpose(1, 2)).squeeze(-1), 0)

    def _mixing(
        self, layer: Float[Tensor, "batch head query key"], seen: Bool[Tensor, "batch query key"]
    ) -> Float[Tensor, "batch query key"]:
        """Return how much of each state a layer's outputs are made of; padding keeps to itself."""
        weights = torch.where(seen, self._fused(layer), 0)  # what padding asks for may be NaN
        if self.discard:
            weights = torch.where(smallest(weights, seen, self.discard), 0, weights)
        mixed = (weights + torch.eye(weights.shape[-1], device=weights.device)) / 2
        return mixed / mixed.sum(-1, keepdim=True)

    def _fused(self, layer: Float[Tensor, "batch head query key"]) -> Float[Tensor, "batch query key"]:
        if self.heads == "mean":
            return layer.mean(1)
        return layer.amax(1) if self.heads == "max" else layer.amin(1)


def smallest(
    weights: Float[Tensor, "batch query key"], seen: Bool[Tensor, "batch query key"], share: float
) -> Bool[Tensor, "batch query key"]:
    """Mark the smallest share of the weights of each example, counted among the pairs that may see each other."""
    order = torch.where(seen, weights, torch.inf).flatten(1).argsort(dim=1, stable=True)
    count = (share * seen.flatten(1).sum(1, keepdim=True)).floor()
    first = torch.arange(order.shape[1], device=order.device) < count  # (batch, pair), in order of size
    return torch.zeros_like(first).scatter(1, order, first).view_as(seen)
