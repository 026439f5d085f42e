"""Generic attention explainability: attention flow weighted by what each weight does for the answer.

Chefer, Gur and Wolf (ICCV 2021), the rule for self-attention, without relevance propagation:

    Ā = mean over heads of (∇A ⊙ A)⁺        R ← R + Ā·R, from R = I, layer by layer        score = the asking row of R

∇A is the gradient of the score of what was decided. The row that asks is where the answer is read after the last
layer, e.g. [CLS]; where it is read from several positions their mean asks. Of an image whose [CLS] is read beside its
patches, as by DINOv2, the paper asks [CLS] alone, and `ask` = read asks them all, [CLS] as one of many. At a site
inside the model only the layers after it count. It needs no baseline. This is not the method of their CVPR 2021 paper,
which propagates relevance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..errors import ModelError
from ..models.attention import behind
from ..models.flow import attend_after, read_share, visible
from ..models.sites import replace
from ..objective.target import logit
from ..settings import check_choices
from ..training.step import Look, look
from .method import Method, Question


@dataclass(frozen=True)
class Chefer(Method):
    """The relevance that reaches a unit, summed over its positions."""

    ask: Annotated[
        Literal["cls", "read"], "whose row is the answer: [CLS] alone where it is read, or all that is read"
    ] = "cls"

    def __post_init__(self) -> None:
        check_choices(self, "chefer")

    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        model = question.model
        with model.frozen():
            seen = look(model, question.task, question.batch)
            layers = weighted_layers(seen, question)
            share = read_share(model, question.batch, lambda output: score_of(output, seen))
        prefix = share.shape[1] - question.batch.shape[1]
        batch = behind(question.batch, prefix)
        flow = (first_alone(share) if prefix and self.ask == "cls" else share).unsqueeze(1)
        pairs = visible(batch, model.causal)
        for layer in reversed(layers):
            flow = flow + flow @ rule(layer, pairs)
        return torch.where(batch.valid, batch.add_up(flow.transpose(1, 2)).squeeze(-1), 0)


def first_alone(share: Float[Tensor, "batch position"]) -> Float[Tensor, "batch position"]:
    """Give the whole vote to the first position, [CLS], wherever it has a share of it."""
    first = torch.zeros_like(share)
    first[:, 0] = 1
    return torch.where(share[:, :1] > 0, first, share)


def rule(
    layer: Float[Tensor, "batch head query key"], pairs: Bool[Tensor, "batch query key"]
) -> Float[Tensor, "batch query key"]:
    """Average what is positive over heads; what padding asks for may be NaN."""
    return torch.where(pairs, layer.clamp_min(0).mean(1), 0)


def weighted_layers(seen: Look, question: Question) -> list[Float[Tensor, "batch head query key"]]:
    """Return ∇A ⊙ A of every layer after the site."""
    state = seen.states[question.site_name].detach().requires_grad_(True)  # so that attention has a gradient
    with torch.enable_grad(), replace(seen.model.sites[question.depth], state):
        found = attend_after(seen.model, seen.batch, question.depth, "chefer")
        value = score_of(found.output, seen).sum()
    slopes = slopes_of(value, found.layers, type(seen.model.model).__name__)
    device = seen.batch.valid.device
    return [(a.detach().float() * g.float()).to(device) for a, g in zip(found.layers, slopes, strict=True)]


def slopes_of(value: Tensor, layers: Sequence[Tensor], kind: str) -> Sequence[Tensor]:
    """Differentiate with respect to the attention of each layer, and refuse attention that is only shown."""
    if not layers:
        return []
    used = value.requires_grad and all(layer.requires_grad for layer in layers)
    found = torch.autograd.grad(value, layers, allow_unused=True) if used else ()
    slopes = [slope for slope in found if slope is not None]
    if len(slopes) < len(layers):
        raise ModelError(
            f"the attention probabilities that {kind} returns have no effect on its answer, which method 'chefer' "
            "needs: use another, e.g. integrated-gradients"
        )
    return slopes


def score_of(output: object, seen: Look) -> Float[Tensor, " batch"]:
    """Return the score of what was decided originally."""
    return logit(seen.task.read(output, seen.batch), seen.original)
