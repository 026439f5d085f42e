"""The optimisers a recipe can name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from ..registry import Registry

OPTIMIZERS = Registry(
    "optimizer",
    {
        "adam": "diffmask.training.optimizer:Adam",
        "lookahead-rmsprop": "diffmask.training.optimizer:LookaheadRMSprop",
        "lookahead-adam": "diffmask.training.optimizer:LookaheadAdam",
    },
)

SYNC = 6  # steps between two looks back (Zhang et al. 2019), as De Cao et al. set it


class Adam(torch.optim.AdamW):
    """Adam with decoupled weight decay; on a GPU one kernel moves all weights, where each would have waited for ten."""

    def __init__(self, params: Iterable[Any], lr: float) -> None:
        groups = [group if isinstance(group, dict) else {"params": [group]} for group in params]
        on_gpu = all(parameter.is_cuda for group in groups for parameter in group["params"])
        super().__init__(groups, lr=lr, fused=on_gpu or None)


class LookaheadRMSprop(torch.optim.RMSprop):
    """RMSprop that goes halfway back to its slow weights at every sixth step: De Cao et al.'s optimiser."""

    def __init__(self, params: Iterable[Any], lr: float) -> None:
        super().__init__(params, lr=lr, centered=True)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = super().step(closure)
        look_back(self)
        return loss


class LookaheadAdam(torch.optim.Adam):
    """Adam that goes halfway back to its slow weights at every sixth step: Vision DiffMask's optimiser."""

    def __init__(self, params: Iterable[Any], lr: float) -> None:
        super().__init__(params, lr=lr)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = super().step(closure)
        look_back(self)
        return loss


@torch.no_grad()
def look_back(optimizer: torch.optim.Optimizer) -> None:
    """Take every weight whose sixth step this was halfway back to where it was six steps ago."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            state = optimizer.state[parameter] if parameter.grad is not None else {}
            if state and int(state["step"]) % SYNC == 0:
                slow = state.setdefault("slow", parameter.clone())  # the first time only takes stock, as the authors do
                slow.lerp_(parameter, 0.5)
                parameter.copy_(slow)
