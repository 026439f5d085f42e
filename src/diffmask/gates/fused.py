"""All voters of a probe at once: one batched matrix product over every depth, where nothing needs a gradient.

Each voter reads the site of its depth, that of an input probe the first site too, so all weights can be stacked:

    logit_d = v_d · tanh(A_d (x_0 − μ_0) + B_d (x_d − μ_d) + c_d) + e_d        tanh(y) = 2·σ(2y) − 1

The 2s go into the weights, as a logistic function takes a seventh of the time of a tanh on a CPU. There, and where the
states are large, one product after the other, each within the cache, is faster than all at once. Sums are added up in
another order than voter by voter, so the last digits differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from .voter import LinearVoter, StandardVoter, Voter

LARGE = {"cpu": 0, "cuda": 1 << 25}  # numbers in all states, from which on a copy is not worth the kernels it saves


@dataclass(frozen=True)
class Fused:
    """The weights of all voters, the scale of the states and the 2s of the tanh in them."""

    shared: bool  # whether every voter reads the first site too
    weights: Sequence[Float[Tensor, "hidden _"]]
    means: Sequence[Float[Tensor, " _"]]
    bias: Float[Tensor, "depth hidden"]
    last: Float[Tensor, "depth hidden"]
    start: Float[Tensor, " depth"]
    first: Float[Tensor, "depth width hidden"] | None  # of the weights, the part that reads the first site
    own: Float[Tensor, "voter width hidden"]  # and the part that reads the voter's own
    own_means: Float[Tensor, "voter 1 width"]

    def __call__(self, states: Sequence[Tensor]) -> Float[Tensor, "depth batch unit"]:
        """Return the logit of every voter for every unit, from the states of all sites in order."""
        rows = [state.flatten(0, 1) for state in states]
        few = len(rows) * rows[0].numel() < LARGE.get(rows[0].device.type, 0)
        found = self._together(rows) if few else self._one_by_one(rows)
        return (found + self.start.unsqueeze(1)).view(len(self.bias), *states[0].shape[:2])

    def _together(self, rows: Sequence[Float[Tensor, "row width"]]) -> Float[Tensor, "depth row"]:
        inner = self.bias.unsqueeze(1).repeat(1, len(rows[0]), 1)
        if self.first is not None:
            usual = rows[0].float() - self.means[0]
            inner.baddbmm_(usual.expand(len(inner), *usual.shape), self.first)
        own = inner[len(inner) - len(self.own) :]  # the voter of the input itself has nothing else to read
        own.baddbmm_(torch.stack(list(rows[len(rows) - len(own) :])).float() - self.own_means, self.own)
        return torch.bmm(inner.sigmoid_(), self.last.unsqueeze(-1)).squeeze(-1)

    def _one_by_one(self, rows: Sequence[Float[Tensor, "row width"]]) -> Float[Tensor, "depth row"]:
        count, width = rows[0].shape
        usual = self.bias.new_empty(count, 2 * width if self.shared else width)
        found = self.bias.new_empty(len(rows), count)
        for depth, (row, weight, mean) in enumerate(zip(rows, self.weights, self.means, strict=True)):
            place = usual[:, :width] if depth == 0 else usual[:, -width:]
            torch.sub(row, mean[-width:], out=place)
            inner = torch.addmm(self.bias[depth], usual[:, : len(mean)], weight.T).sigmoid_()
            torch.mv(inner, self.last[depth], out=found[depth])
        return found


@dataclass(frozen=True)
class FusedSums:
    """The weights of all linear voters, the scale of the states in them: logit_d = a_d · x_0 + b_d · x_d + c_d."""

    means: Sequence[Float[Tensor, " _"]]
    start: Float[Tensor, " depth"]
    first: Float[Tensor, "width depth"] | None  # what reads the first site, beside their own
    own: Sequence[Float[Tensor, " _"]]

    def __call__(self, states: Sequence[Tensor]) -> Float[Tensor, "depth batch unit"]:
        """Return the logit of every voter for every unit, from the states of all sites in order."""
        usual = [state.flatten(0, 1) - mean for state, mean in zip(states, self.means, strict=True)]
        found = torch.stack([row @ weight for row, weight in zip(usual, self.own, strict=True)])
        if self.first is not None:
            found += (usual[0] @ self.first).T
        return (found + self.start.unsqueeze(1)).view(-1, *states[0].shape[:2])


def fuse(
    voters: Sequence[StandardVoter], reads: Sequence[Sequence[int]], widths: Sequence[int]
) -> Fused | FusedSums | None:
    """Stack the weights of voters that read their own site, or the first and their own; None for others."""
    width, shared = widths[0], len(reads[-1]) > 1
    if [tuple(r) for r in reads] != [(0, i) if shared and i else (i,) for i in range(len(voters))]:
        return None
    if shared and not all(torch.equal(voter.mean[:width], voters[0].mean) for voter in voters):
        return None
    if all(isinstance(voter, LinearVoter) for voter in voters):
        return fuse_linear(cast(Sequence[LinearVoter], voters), widths, shared)
    return fuse_networks(cast(Sequence[Voter], voters), widths, shared)


@torch.no_grad()
def fuse_linear(voters: Sequence[LinearVoter], widths: Sequence[int], shared: bool) -> FusedSums:
    """Stack the weights of linear voters, each of which may read a site of another width."""
    weights = [voter.weights * voter.scale for voter in voters]
    first = [weight[: widths[0]] if depth else 0 * weight for depth, weight in enumerate(weights)]
    return FusedSums(
        means=[voter.mean[-width:] for voter, width in zip(voters, widths, strict=True)],
        start=torch.cat([voter.common + voter.start for voter in voters]),
        first=torch.stack(first, dim=1) if shared else None,
        own=[weight[-width:] for weight, width in zip(weights, widths, strict=True)],
    )


@torch.no_grad()
def fuse_networks(voters: Sequence[Voter], widths: Sequence[int], shared: bool) -> Fused | None:
    """Stack the weights of networks of one size; None for others."""
    width = widths[0]
    if len(set(widths)) > 1 or len({voter.first.out_features for voter in voters}) > 1:
        return None
    weights = [2 * voter.first.weight * voter.scale for voter in voters]
    last = torch.cat([voter.last.weight for voter in voters])
    starts = torch.cat([voter.last.bias + voter.start for voter in voters])
    own = range(1 if shared else 0, len(voters))
    return Fused(
        shared=shared,
        weights=weights,
        means=[voter.mean for voter in voters],
        bias=torch.stack([2 * voter.first.bias for voter in voters]),
        last=2 * last,
        start=starts - last.sum(1),
        first=torch.stack([w[:, :width].T for w in weights]) if shared else None,
        own=torch.stack([weights[i][:, -width:].T for i in own]),
        own_means=torch.stack([voters[i].mean[-width:] for i in own]).unsqueeze(1),
    )


def version(voters: Sequence[StandardVoter]) -> tuple[object, ...] | None:
    """Return what changes whenever a weight does, without looking at the weights; None where they do not tell.

    Change them under `torch.no_grad()`: PyTorch does not count what is done to `weight.data`.
    """
    tensors = [tensor for voter in voters for tensor in (*voter.parameters(), *voter.buffers())]
    if any(tensor.is_inference() for tensor in tensors):  # made under torch.inference_mode, they count nothing
        return None
    return tuple((tensor.data_ptr(), tensor._version) for tensor in tensors)
