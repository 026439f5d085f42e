"""Score every hidden state by how well it fits a learned query."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

Hidden = Float[Tensor, "*row position hidden"]
Scores = Float[Tensor, "*row position"]


class Additive(nn.Module):
    """v·tanh(W h + b): with one query for all texts, its part of the sum is the bias b (Bahdanau et al. 2015)."""

    def __init__(self, hidden: int, query: str = "normal") -> None:
        super().__init__()
        self.inner = nn.Linear(hidden, max(1, hidden // 2))
        self.outer = nn.Linear(max(1, hidden // 2), 1, bias=False)

    def forward(self, hidden: Hidden) -> Scores:
        return self.outer(torch.tanh(self.inner(hidden))).squeeze(-1)

    def slope(self, hidden: Hidden) -> Hidden:
        """Return the gradient of each score to its own hidden state."""
        bend = 1 - torch.tanh(self.inner(hidden)).square()
        return (bend * self.outer.weight[0]) @ self.inner.weight


class ScaledDot(nn.Module):
    """q·h / √m. A query drawn as PyTorch draws a linear layer is so small that attention starts uniform and stays so;
    drawn from N(0, 1) it does not (Tutek and Šnajder 2020, appendix C)."""

    def __init__(self, hidden: int, query: str = "normal") -> None:
        super().__init__()
        bound = 1 / math.sqrt(hidden)
        drawn = torch.randn(hidden) if query == "normal" else torch.empty(hidden).uniform_(-bound, bound)
        self.query = nn.Parameter(drawn)

    def forward(self, hidden: Hidden) -> Scores:
        return hidden @ self.query / math.sqrt(hidden.shape[-1])

    def slope(self, hidden: Hidden) -> Hidden:
        """Return the gradient of each score to its own hidden state."""
        return (self.query / math.sqrt(hidden.shape[-1])).expand_as(hidden)
