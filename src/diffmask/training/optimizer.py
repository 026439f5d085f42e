"""The optimisers a recipe can name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from ..registry import Registry

OPTIMIZERS = Registry(
    "optimizer",
    {"adam": "torch.optim:AdamW", "lookahead-rmsprop": "diffmask.training.optimizer:LookaheadRMSprop"},
)

SYNC = 6  # steps between two looks back (Zhang et al. 2019), as De Cao et al. set it


class LookaheadRMSprop(torch.optim.RMSprop):
    """RMSprop that goes halfway back to its slow weights at every sixth step: De Cao et al.'s optimiser."""

    def __init__(self, params: Iterable[Any], lr: float) -> None:
        super().__init__(params, lr=lr, centered=True)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = super().step(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and int(self.state[parameter]["step"]) % SYNC == 0:
                    self._sync(parameter)
        return loss

    def _sync(self, parameter: torch.Tensor) -> None:
        state = self.state[parameter]
        slow = state.setdefault("slow", parameter.clone())  # the first sync only takes stock, as in the authors' code
        slow.lerp_(parameter, 0.5)
        parameter.copy_(slow)
