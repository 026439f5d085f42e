"""Grad-CAM: which states of the last block point the way in which the answer, on average over units, would grow.

Selvaraju et al. (2017), on a transformer: with a the states that the last block reads, after its first norm,

    w = mean over units of ∂ score / ∂ a        map = (w · a)⁺

The score is that of what was decided. Behind the last block only [CLS] is read by many heads, so there the map would
be nothing. A block that does not begin with a norm is asked about what enters it. It belongs to a layer, not to a site:
at every depth the scores are the same. It needs no baseline.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..errors import ModelError
from ..models.attention import behind
from ..models.norm import read_by_last_block
from ..models.sites import Site, capture
from ..models.sites import replace as put
from ..objective.target import logit
from ..training.perturb import gated_positions
from ..training.step import Look, look
from .method import Method, Question


@dataclass(frozen=True)
class GradCam(Method):
    """The map at a unit, summed over its positions."""

    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        model, batch = question.model, question.batch
        with model.frozen():
            seen = look(model, question.task, batch)
            site = read_by_last_block(model, batch)
            if site is None:
                raise refusal(question)
            with torch.no_grad(), capture([site]) as states:
                model(batch)
            state = states[site.name]
            wide = behind(batch, self._prefix(question, state))
            slope = slope_at(seen, site, state)
        found = cam(state.float(), slope, gated_positions(wide).to(state.device)).to(batch.valid.device)
        return torch.where(batch.valid, wide.add_up(found.unsqueeze(-1)).squeeze(-1), 0)

    def _prefix(self, question: Question, state: Tensor) -> int:
        """Return how many positions stand before the units, and refuse a state without one for each of them."""
        rows, count = question.batch.shape
        more = state.shape[1] - count if state.dim() == 3 and len(state) == rows else -1
        if more < 0 or (more and question.model.patch is None):
            raise refusal(question)
        return more


def refusal(question: Question) -> ModelError:
    return ModelError(
        f"{type(question.model.model).__name__} has no last block that holds one state per position, which method "
        "'grad-cam' reads: use another, e.g. integrated-gradients"
    )


def slope_at(
    seen: Look, site: Site, state: Float[Tensor, "batch position hidden"]
) -> Float[Tensor, "batch position hidden"]:
    """Differentiate the score of what was decided with respect to a state."""
    state = state.detach().requires_grad_(True)
    with torch.enable_grad(), put(site, state):
        value = logit(seen.task.read(seen.model(seen.batch), seen.batch), seen.original).sum()
    if not value.requires_grad:
        raise ModelError(
            "no gradient reaches the last block from the prediction, e.g. because the model runs under no_grad: use a "
            "method without gradients, such as leave-one-out"
        )
    return torch.autograd.grad(value, state, materialize_grads=True)[0].float()


def cam(
    state: Float[Tensor, "batch position hidden"],
    slope: Float[Tensor, "batch position hidden"],
    gated: Bool[Tensor, "batch position"],
) -> Float[Tensor, "batch position"]:
    """Weigh the features by their mean slope over the gated positions, and keep what is positive."""
    weight = torch.where(gated.unsqueeze(-1), slope, 0).sum(1) / gated.sum(1, keepdim=True)  # (batch, hidden)
    return torch.einsum("bph,bh->bp", state, weight).clamp_min(0)
