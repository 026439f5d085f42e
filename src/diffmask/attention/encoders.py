"""Read a text: each encoder is an entry and a list of equal layers, from a state per position to a state per position.

What stands at padding never reaches a real position, whichever side it is on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

State = Float[Tensor, "batch position width"]
Next = Float[Tensor, "batch position hidden"]
Real = Bool[Tensor, "batch position"]


@dataclass(frozen=True)
class Encoder:
    """The parts of an encoder, and how wide the states are that leave it."""

    entry: nn.Module
    layers: nn.ModuleList
    width: int


def bilstm(width: int, hidden: int, layers: int, dropout: float) -> Encoder:
    """Make bidirectional LSTM layers of `hidden` units per direction."""
    widths = [width] + [2 * hidden] * (layers - 1)
    return Encoder(Straight(dropout), nn.ModuleList(BiLSTM(size, hidden) for size in widths), 2 * hidden)


def transformer(width: int, hidden: int, layers: int, dropout: float) -> Encoder:
    """Make Transformer layers with one head, all of width `hidden`."""
    blocks = nn.ModuleList(SelfAttention(hidden, dropout) for _ in range(layers))
    return Encoder(Placed(width, hidden, dropout), blocks, hidden)


def projection(width: int, hidden: int, layers: int, dropout: float) -> Encoder:
    """Make layers that look at each word alone: a linear map and tanh."""
    widths = [width] + [hidden] * (layers - 1)
    return Encoder(Straight(dropout), nn.ModuleList(Alone(size, hidden) for size in widths), hidden)


class Straight(nn.Module):
    """Hands the embeddings on, with dropout."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def forward(self, state: State, real: Real) -> State:
        return self.dropout(state)


class Placed(nn.Module):
    """Brings embeddings to the width of the layers and adds a wave per position (Vaswani et al. 2017)."""

    def __init__(self, width: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.map, self.dropout = nn.Linear(width, hidden), nn.Dropout(dropout)

    def forward(self, state: State, real: Real) -> Next:
        mapped = self.map(state)
        return self.dropout(mapped + waves(real, mapped.shape[-1]).to(mapped.dtype))


class BiLSTM(nn.Module):
    """One layer that reads from both ends; each direction meets the real positions first, so neither meets padding.

    Packing would do the same, but on a CPU packed texts miss the fast kernels, and long ones take far longer.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.ahead = nn.LSTM(width, hidden, batch_first=True)
        self.back = nn.LSTM(width, hidden, batch_first=True)

    def forward(self, state: State, real: Real) -> Next:
        first = (~real).int().argsort(dim=1, stable=True)  # real positions first, in order
        last = first.gather(1, _turned(real))  # real positions first, from the last one on
        read = [_read(lstm, state, order) for lstm, order in ((self.ahead, first), (self.back, last))]
        return torch.where(real.unsqueeze(-1), torch.cat(read, dim=-1), 0)


class SelfAttention(nn.Module):
    """Attend to all real positions with one head, then a two-layer network; norms come after each sum."""

    def __init__(self, hidden: int, dropout: float) -> None:
        super().__init__()
        self.ask, self.mix = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.think = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, hidden))
        self.norms = nn.ModuleDict({"mix": nn.LayerNorm(hidden), "think": nn.LayerNorm(hidden)})
        self.dropout = nn.Dropout(dropout)

    def forward(self, state: State, real: Real) -> State:
        query, key, value = self.ask(state).chunk(3, dim=-1)
        scores = query @ key.transpose(1, 2) / math.sqrt(state.shape[-1])
        # The lowest number, not −inf: a row of padding alone must not become NaN.
        scores = scores.masked_fill(~real.unsqueeze(1), torch.finfo(scores.dtype).min)
        seen = self.mix(F.softmax(scores, dim=-1) @ value)
        state = self.norms["mix"](state + self.dropout(seen))
        return self.norms["think"](state + self.dropout(self.think(state)))


class Alone(nn.Module):
    """Looks at one word at a time: the hidden state of a word knows nothing of its neighbours."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.map = nn.Linear(width, hidden)

    def forward(self, state: State, real: Real) -> Next:
        return torch.tanh(self.map(state))


def waves(real: Real, width: int) -> Float[Tensor, "batch position width"]:
    """Return a sine and a cosine per pair of features, by the number of each position from the first real one."""
    place = (real.long().cumsum(1) - 1).clamp_min(0).unsqueeze(-1)  # (batch, position, 1)
    feature = torch.arange(width, device=real.device)
    angle = place / 10000 ** ((feature - feature % 2) / width)
    return torch.where(feature % 2 == 0, angle.sin(), angle.cos())


def _read(lstm: nn.LSTM, state: State, order: Tensor) -> Next:
    """Let an LSTM meet the positions of each row in an order, and put what it says back in its place."""
    return _moved(lstm(_moved(state, order))[0], order.argsort(dim=1))


def _turned(real: Real) -> Int[Tensor, "batch position"]:
    """Return, for rows whose real positions come first, an order that turns these round and leaves the padding."""
    place, count = torch.arange(real.shape[1], device=real.device), real.sum(1, keepdim=True)
    return torch.where(place < count, count - 1 - place, place)


def _moved(state: State, order: Tensor) -> State:
    """Take the positions of each row in another order."""
    return state.gather(1, order.unsqueeze(-1).expand_as(state))
