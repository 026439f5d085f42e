"""The digit counter of De Cao et al. (2020, §3.1): does the first query digit occur more often than the second?

What the model can know where is fixed by its shape. The digit embedding has not met the query, so nothing can be
dropped there; the 2-d state after the feed-forward net can only say "first", "second" or "other".
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from .adapter import Adapter
from .sites import Site


class DigitCounter(nn.Module):
    """Embed the query and each digit, squeeze them to two numbers, and count with a GRU."""

    def __init__(self, hidden: int = 64, state: int = 2) -> None:
        super().__init__()
        self.query_embedding = nn.Embedding(10, hidden)
        self.digit_embedding = nn.Embedding(10, hidden)
        self.filter = nn.Sequential(nn.Linear(3 * hidden, hidden), nn.Tanh(), nn.Linear(hidden, state))
        self.counter = nn.GRU(state, hidden, batch_first=True)
        self.answer = nn.Linear(hidden, 1)

    def forward(
        self, query: Int[Tensor, "batch 2"], digits: Int[Tensor, "batch unit"], length: Int[Tensor, " batch"]
    ) -> Float[Tensor, " batch"]:
        asked = self.query_embedding(query).flatten(1).unsqueeze(1).expand(-1, digits.shape[1], -1)
        state = self.filter(torch.cat([asked, self.digit_embedding(digits)], dim=-1))  # (batch, unit, 2)
        counts, _ = self.counter(state)
        # A forward GRU has seen nothing of the padding at the last real step, so no packing is needed.
        last = counts[torch.arange(len(digits), device=digits.device), length - 1]
        return self.answer(last).squeeze(-1)


def adapt_digit_counter(model: DigitCounter) -> Adapter:
    """Name the two places of the paper's Figure 3: before and after the model has met the query."""
    return Adapter(model, [Site("digit embedding", model.digit_embedding), Site("filtered state", model.filter)])
