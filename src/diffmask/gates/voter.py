"""The small networks that turn a unit's states into one logit."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import groupby
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

ROUNDING = 1e-5  # of the size of the states: float32 has seven digits, sums lose one, so what varies less is rounding
SMALL = {"cpu": 0, "cuda": 1 << 22}  # numbers a voter reads, up to which a copy of them costs less than a kernel more


def scale_of(mean: Float[Tensor, " inputs"], std: Float[Tensor, " inputs"]) -> Float[Tensor, " inputs"]:
    """Return what standardises each number of a state, 0 for one that never varied.

    That one says nothing, and to divide by next to nothing would make much of how another precision rounds it.
    """
    size = std.mean() + mean.abs()
    return torch.where(std > ROUNDING * size, 1 / std, 0.0)


class StandardVoter(nn.Module, ABC):
    """A vote on standardised states that starts with the same, chosen logit for every unit."""

    mean: Tensor
    scale: Tensor

    def __init__(self, inputs: int, start: float) -> None:
        super().__init__()
        self.start = start
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("scale", torch.ones(inputs))

    def standardise(self, mean: Float[Tensor, " inputs"], std: Float[Tensor, " inputs"]) -> None:
        """Set what counts as usual, so that the size of a model's states does not matter."""
        self.mean.copy_(mean)
        self.scale.copy_(scale_of(mean, std))

    def forward(self, state: Float[Tensor, " *batch inputs"]) -> Float[Tensor, " *batch"]:
        # In float32 whatever the model computes in: a gate's logit decides, and bfloat16 has three digits.
        with torch.autocast(state.device.type, enabled=False):
            return self.start + self.weigh((state.float() - self.mean) * self.scale).squeeze(-1)

    @abstractmethod
    def weigh(self, usual: Float[Tensor, " *batch inputs"]) -> Float[Tensor, " *batch one"]:
        """Return what speaks for keeping a unit, beside what every unit starts with."""

    @abstractmethod
    def restart(self, generator: torch.Generator | None = None) -> None:
        """Forget what was learned, and vote `start` for every unit again."""


class Voter(StandardVoter):
    """An MLP.

    Two choices were paid for on the digit task. The first layer is wide from the start (`spread`): what can be
    dropped may lie between two things that cannot, and a net that starts nearly linear saturates before it learns
    to carve out a middle. The last layer is zero, so the share kept at step 0 is the one asked for.
    """

    def __init__(self, inputs: int, hidden: int, start: float, spread: float = 3.0) -> None:
        super().__init__(inputs, start)
        self.first, self.last = nn.Linear(inputs, hidden), nn.Linear(hidden, 1)
        self.spread = spread
        self.restart()

    def restart(self, generator: torch.Generator | None = None) -> None:
        """Draw the first layer anew and vote `start` for every unit again."""
        with torch.no_grad():
            self.first.weight.normal_(0, self.spread / math.sqrt(self.first.in_features), generator=generator)
            self.first.bias.normal_(0, 1, generator=generator)
            self.last.weight.zero_()
            self.last.bias.zero_()

    def weigh(self, usual: Float[Tensor, " *batch inputs"]) -> Float[Tensor, " *batch one"]:
        return self.last(torch.tanh(self.first(usual)))


class LinearVoter(StandardVoter):
    """A weighted sum: nothing in it is drawn, so that seeds differ by their data and noise alone.

    What several say on average a linear voter says too, no wider than one of them.
    """

    def __init__(self, inputs: int, start: float) -> None:
        super().__init__(inputs, start)
        self.weights, self.level = nn.Parameter(torch.zeros(inputs)), nn.Parameter(torch.zeros(1))

    def restart(self, generator: torch.Generator | None = None) -> None:
        """Vote `start` for every unit again."""
        nn.init.zeros_(self.weights)
        nn.init.zeros_(self.level)

    @property
    def common(self) -> Float[Tensor, " one"]:
        """What is said of every unit alike.

        Adam moves each weight by the same little. Standardised states are 0 on average, so that one alone would have to
        open or close all gates; it goes as far as the others do together.
        """
        return math.sqrt(len(self.weights)) * self.level

    def weigh(self, usual: Float[Tensor, " *batch inputs"]) -> Float[Tensor, " *batch one"]:
        return (usual @ self.weights).unsqueeze(-1) + self.common


def ask(voters: Sequence[nn.Module], states: Sequence[Tensor]) -> list[Float[Tensor, " *batch"]]:
    """Show each voter its states; on a GPU, neighbours of one shape answer at once if there is little to read."""

    def shape(pair: tuple[nn.Module, Tensor]) -> object:
        voter, state = pair
        alike = isinstance(voter, Voter) and state.numel() < SMALL.get(state.device.type, 0)
        return (voter.start, voter.first.weight.shape) if alike else voter  # type: ignore[union-attr]

    found: list[Tensor] = []
    for _, pairs in groupby(zip(voters, states, strict=True), key=shape):
        some, shown = zip(*pairs, strict=True)
        found += _ask_together(cast(Sequence[Voter], some), shown) if len(some) > 1 else [some[0](shown[0])]
    return found


def _ask_together(voters: Sequence[Voter], states: Sequence[Tensor]) -> Sequence[Float[Tensor, " *batch"]]:
    with torch.autocast(states[0].device.type, enabled=False):
        parts = [(v.mean, v.scale, v.first.weight, v.first.bias, v.last.weight, v.last.bias) for v in voters]
        mean, scale, first, bias, last, end = (torch.stack(some).unsqueeze(1) for some in zip(*parts, strict=True))
        usual = (torch.stack(list(states)).float().flatten(1, -2) - mean) * scale
        inner = torch.tanh(torch.baddbmm(bias, usual, first.squeeze(1).mT))
        logits = voters[0].start + torch.baddbmm(end, inner, last.squeeze(1).mT)
    return logits.view(len(voters), *states[0].shape[:-1]).unbind()


def bounded(logit: Float[Tensor, " *shape"], bound: float) -> Float[Tensor, " *shape"]:
    """Keep a logit within ±`bound`: beyond, a sample is never the other way and nothing would pull it back.

    Straight through, because a clamp's zero gradient would hold it at the bound for good.
    """
    return logit + (logit.clamp(-bound, bound) - logit).detach()


class PublishedVoter(nn.Module):
    """The papers' gate: weight-normalised layers, tanh-bounded to ±`stretch` around a learned bias, at first `offset`.

    De Cao et al. have ±10 around 5; Vision DiffMask ±15 around 8, and a second bias (`inner`) inside the bound.
    """

    def __init__(
        self, inputs: int, hidden: int, stretch: float = 10.0, offset: float = 5.0, inner: bool = False
    ) -> None:
        super().__init__()
        self.net = nn.Sequential(
            weight_norm(nn.Linear(inputs, hidden)),
            nn.Tanh(),
            weight_norm(nn.Linear(hidden, 1, bias=inner)),
            nn.Tanh(),
        )
        self.stretch = stretch
        self.bias = nn.Parameter(torch.tensor(offset))

    def restart(self, generator: torch.Generator | None = None) -> None:
        """Stay as it is: the published recipe has no second try."""

    def standardise(self, mean: Tensor, std: Tensor) -> None:
        """Stay as it is: the published gate reads raw states."""

    def forward(self, state: Float[Tensor, " *batch inputs"]) -> Float[Tensor, " *batch"]:
        return self.stretch * self.net(state.float()).squeeze(-1) + self.bias
