"""The price of breaking the constraint: λ, one per depth or per example.

λ is a controller, not a parameter (Sohrabi et al. 2024). RMSprop or Adam on λ moves by a fixed step whatever the
violation; from a satisfied constraint it runs to 0, gates saturate, and everything collapses. Here an integral part
remembers, a proportional part acts at once, and the loss is divided by 1 + λ so that no step is larger than another:

    g = level / target − 1        e = clip(g, −1, cap)        ξ ← ν·ξ + (1 − ν)·e
    price = clip(λ + κp·ξ, 0, ceiling)        λ ← clip(λ + κi·e, 0, ceiling)
    loss = (cost + price·g) / (1 + price)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from ..errors import SettingError
from ..settings import check_choices

Index = int | slice | list[int]  # one depth, several, or all examples


@dataclass(frozen=True)
class ControllerConfig:
    """The gains of the controller."""

    integral: Annotated[float, "κi: how fast λ follows the violation"] = 0.01
    proportional: Annotated[float, "κp: how much of the violation acts at once"] = 1.0
    smoothing: Annotated[float, "ν: how much of the last violations the proportional part remembers"] = 0.8
    error_cap: Annotated[float, "largest relative violation that counts, so that λ does not wind up"] = 5.0
    ceiling: Annotated[float, "largest λ"] = 200.0

    def __post_init__(self) -> None:
        if not 0 <= self.smoothing < 1:
            raise SettingError(f"controller.smoothing must lie in [0, 1), got {self.smoothing}")
        if min(self.integral, self.error_cap, self.ceiling) <= 0 or self.proportional < 0:
            raise SettingError("controller gains must be positive: λ would never answer a violation")


class Dual(nn.Module, ABC):
    """Turns a cost and a constrained level into a loss, and moves λ."""

    multiplier: Tensor

    @abstractmethod
    def forward(self, cost: Tensor, level: Tensor, target: Tensor, index: Index) -> Tensor:
        """Return the loss at `index` for keeping `level` at or below `target`."""

    @abstractmethod
    def reset(self, index: Index) -> None:
        """Forget what was learned at `index`."""


class Controller(Dual):
    """PI control of the relative violation, with anti-windup."""

    smoothed: Tensor

    def __init__(self, count: int, config: ControllerConfig) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("multiplier", torch.zeros(count))
        self.register_buffer("smoothed", torch.zeros(count))

    def forward(self, cost: Tensor, level: Tensor, target: Tensor, index: Index) -> Tensor:
        violation = level / target - 1
        price = self._answer(violation.detach(), index)
        return (cost + price * violation) / (1 + price)

    def reset(self, index: Index) -> None:
        self.multiplier[index] = 0
        self.smoothed[index] = 0

    def _answer(self, violation: Tensor, index: Index) -> Tensor:
        """Return the price of a violation now, and move λ on."""
        c = self.config
        error = violation.clamp(-1, c.error_cap)
        self.smoothed[index] = c.smoothing * self.smoothed[index] + (1 - c.smoothing) * error
        price = (self.multiplier[index] + c.proportional * self.smoothed[index]).clamp(0, c.ceiling)
        self.multiplier[index] = (self.multiplier[index] + c.integral * error).clamp(0, c.ceiling)
        return price


@dataclass(frozen=True)
class PublishedConfig:
    """How the papers move λ: by an optimiser of its own, with Lookahead, clamped to [0, ceiling]."""

    rule: Annotated[Literal["rmsprop", "adam"], "De Cao et al.'s optimiser, or Vision DiffMask's"] = "rmsprop"
    initial: Annotated[float, "λ at the first step"] = 1.0
    speed: Annotated[float, "its learning rate"] = 0.3
    highest: Annotated[float, "largest λ"] = 200.0
    sign: Annotated[
        Literal["ascent", "descent"],
        "a broken constraint raises λ, or lowers it, as Vision DiffMask released it",
    ] = "ascent"

    def __post_init__(self) -> None:
        check_choices(self, "published")
        if min(self.speed, self.highest) <= 0 or not 0 <= self.initial <= self.highest:
            raise SettingError(
                f"published λ needs speed > 0 and 0 ≤ initial ≤ highest, got speed {self.speed}, initial "
                f"{self.initial}, highest {self.highest}"
            )


class PublishedDual(Dual):
    """The papers' λ: RMSprop or Adam with Lookahead on the violation itself; kept to compare with.

    Each λ counts its own moves, where the authors count the steps of all depths together.
    """

    DECAY, SYNC, BETAS = 0.99, 6, (0.9, 0.999)  # of RMSprop, of Lookahead, of Adam

    square: Tensor
    average: Tensor
    slow: Tensor
    moves: Tensor

    def __init__(self, count: int, config: PublishedConfig | None = None) -> None:
        super().__init__()
        self.config = config or PublishedConfig()
        self.register_buffer("multiplier", torch.full((count,), self.config.initial))
        for name in ("square", "slow", "moves", "average"):
            self.register_buffer(name, torch.zeros(count))

    def forward(self, cost: Tensor, level: Tensor, target: Tensor, index: Index) -> Tensor:
        violation = level - target
        price = self.multiplier[index].clone()
        self._move(violation.detach() if self.config.sign == "ascent" else -violation.detach(), index)
        return cost + price * violation

    def reset(self, index: Index) -> None:
        self.multiplier[index] = self.config.initial
        for buffer in (self.square, self.slow, self.moves, self.average):
            buffer[index] = 0

    def _move(self, slope: Tensor, index: Index) -> None:
        self.moves[index] += 1
        move = self._rmsprop(slope, index) if self.config.rule == "rmsprop" else self._adam(slope, index)
        fast = self.multiplier[index] + self.config.speed * move
        # Lookahead: every sixth move, halfway back to where the last sync left off; the first sync only takes stock.
        sync = self.moves[index] % self.SYNC == 0
        first = self.moves[index] <= self.SYNC
        middle = torch.where(first, fast, (self.slow[index] + fast) / 2)
        self.slow[index] = torch.where(sync, middle, self.slow[index])
        self.multiplier[index] = torch.where(sync, middle, fast).clamp(0, self.config.highest)

    def _rmsprop(self, slope: Tensor, index: Index) -> Tensor:
        self.square[index] = self.DECAY * self.square[index] + (1 - self.DECAY) * slope**2
        return slope / (self.square[index].sqrt() + 1e-8)

    def _adam(self, slope: Tensor, index: Index) -> Tensor:
        (one, two), moves = self.BETAS, self.moves[index]
        self.average[index] = one * self.average[index] + (1 - one) * slope
        self.square[index] = two * self.square[index] + (1 - two) * slope**2
        scale = (self.square[index] / (1 - two**moves)).sqrt() + 1e-8
        return self.average[index] / (1 - one**moves) / scale
