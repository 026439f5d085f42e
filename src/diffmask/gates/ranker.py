"""The network that scores units against each other: what a unit is worth depends on what else there is."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from .voter import scale_of

HEAD = 64  # width of an attention head


class Ranker(nn.Module):
    """A small transformer on standardised states that starts with the same score for every unit.

    Of two units that show the same, one can go; a network that sees one unit at a time could not know.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, inputs: int, hidden: int, blocks: int) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(2 * inputs, hidden), nn.LayerNorm(hidden), nn.Linear(hidden, 1)
        self.blocks = nn.ModuleList(Block(hidden) for _ in range(blocks))
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("scale", torch.ones(inputs))
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def standardise(self, mean: Float[Tensor, " inputs"], std: Float[Tensor, " inputs"]) -> None:
        """Set what counts as usual, so that the size of a model's states does not matter."""
        self.mean.copy_(mean)
        self.scale.copy_(scale_of(mean, std))

    def forward(
        self, state: Float[Tensor, "batch unit inputs"], valid: Bool[Tensor, "batch unit"] | None = None
    ) -> Float[Tensor, "batch unit"]:
        """Score the real units of each example beside their mean; padding scores 0."""
        valid = torch.ones_like(state[..., 0], dtype=torch.bool) if valid is None else valid
        # In float32 whatever the model computes in; and autocast would go on with the weights of the first step.
        with torch.autocast(state.device.type, enabled=False):
            usual, real = (state.float() - self.mean) * self.scale, valid.unsqueeze(-1)
            # For or against: of what? The mean of all units knows.
            mean = (usual * real).sum(1, keepdim=True) / real.sum(1, keepdim=True).clamp_min(1)
            inner = self.first(torch.cat([usual, mean.expand_as(usual)], dim=-1))
            for block in self.blocks:
                inner = block(inner, valid)
            scores = self.last(torch.nn.functional.gelu(self.norm(inner))).squeeze(-1) * valid
            return (scores - scores.sum(1, keepdim=True) / valid.sum(1, keepdim=True).clamp_min(1)) * valid


class Block(nn.Module):
    """A layer of a transformer: units look at the real units of their example, then each thinks for itself."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.heads = max(1, hidden // HEAD)
        self.before, self.between = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.look, self.mix = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.think = nn.Sequential(nn.Linear(hidden, 2 * hidden), nn.GELU(), nn.Linear(2 * hidden, hidden))

    def forward(
        self, inner: Float[Tensor, "batch unit hidden"], valid: Bool[Tensor, "batch unit"]
    ) -> Float[Tensor, "batch unit hidden"]:
        parts = self.look(self.before(inner)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        asked, offered, given = parts.unbind()
        seeable = valid | ~valid.any(1, keepdim=True)  # without a real unit there is nothing to see, which is not NaN
        seen = torch.nn.functional.scaled_dot_product_attention(asked, offered, given, seeable[:, None, None])
        inner = inner + self.mix(seen.transpose(1, 2).flatten(2))
        return inner + self.think(self.between(inner))
