"""A transformer whose weights are a program: look up one fact, then look up the fact that it names.

Its three layers each move one thing. The first tells every position the key just before it; the second brings the
value of the asked key to where the question stands; the third brings the value of *that* key there. Nothing is
trained. What a program in weights looks like follows Lindner et al. (2023), Tracr; this one is written by hand.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from .adapter import Adapter
from .sites import Site

SHARPNESS = 24.0  # of attention: what fits weighs e^12 times the resting place, and that e^12 times what does not


class Lookup(nn.Module):
    """One head of attention on a residual stream, without a norm: ask, match, and add what is found there."""

    def __init__(self, ask: Tensor, match: Tensor, move: Tensor, rest: Tensor) -> None:
        super().__init__()
        width = len(ask)
        self.query, self.key, self.value = nn.Linear(width, width), *(nn.Linear(width, width, False) for _ in range(2))
        with torch.no_grad():
            for layer, weight in ((self.query, ask), (self.key, match), (self.value, move)):
                layer.weight.copy_(weight)
            self.query.bias.copy_(rest)

    def forward(
        self, state: Float[Tensor, "batch position hidden"], real: Bool[Tensor, "batch position"]
    ) -> Float[Tensor, "batch position hidden"]:
        fit = self.query(state) @ self.key(state).transpose(1, 2)  # (batch, asking, asked)
        weight = fit.masked_fill(~real.unsqueeze(1), -torch.inf).softmax(-1)
        return state + weight @ self.value(state)


class Layout:
    """Where each kind of information stands in the state, before a rotation hides it."""

    PARTS = ("key", "value", "ask", "owner", "found", "result")

    def __init__(self, symbols: int, others: int, longest: int) -> None:
        self.starts = {part: number * symbols for number, part in enumerate(self.PARTS)}
        self.symbols, self.longest = symbols, longest
        self.other = len(self.PARTS) * symbols
        self.start = self.other + others
        self.place = self.start + 1
        self.width = self.place + longest

    def span(self, part: str) -> slice:
        return slice(self.starts[part], self.starts[part] + self.symbols)

    def move(self, source: str, target: str) -> Float[Tensor, "hidden hidden"]:
        """Return the matrix that reads one part of a state and writes it to another."""
        matrix = torch.zeros(self.width, self.width)
        matrix[self.span(target), self.span(source)] = torch.eye(self.symbols)
        return matrix

    def place_before(self) -> Float[Tensor, "hidden hidden"]:
        """Return the matrix that turns a place into the one before it; the first asks for itself."""
        matrix, places = torch.zeros(self.width, self.width), torch.arange(self.longest)
        matrix[self.place + (places - 1).clamp_min(0), self.place + places] = 1
        return matrix

    def only_places(self) -> Float[Tensor, "hidden hidden"]:
        return torch.diag((torch.arange(self.width) >= self.place).float())

    def resting(self) -> Float[Tensor, "hidden hidden"]:
        """Return the matrix that lets the start token be found by whoever rests."""
        matrix = torch.zeros(self.width, self.width)
        matrix[self.start, self.start] = 1
        return matrix


class TwoHopModel(nn.Module):
    """Answer with a logit per symbol, read where the question stands; `seed` draws how the state is rotated.

    Tokens are numbered as start, keys, values, questions, others.
    """

    def __init__(self, symbols: int, others: int, longest: int, seed: int) -> None:
        super().__init__()
        layout = Layout(symbols, others, longest)
        width, draw = layout.width, torch.Generator().manual_seed(seed)
        rotation = torch.linalg.qr(torch.randn(width, width, generator=draw)).Q
        self.embedding = nn.Embedding(1 + 3 * symbols + others, width)
        self.places = nn.Parameter(torch.eye(width)[layout.place :] @ rotation)
        self.layers = nn.ModuleList(_turned(layer, rotation) for layer in _program(layout))
        self.answer = nn.Linear(width, symbols, bias=False)
        with torch.no_grad():
            self.embedding.weight.copy_(_tokens(layout, others) @ rotation)
            self.answer.weight.copy_(10 * torch.eye(width)[layout.span("result")] @ rotation)

    def forward(
        self,
        tokens: Int[Tensor, "batch position"],
        real: Bool[Tensor, "batch position"],
        asked: Int[Tensor, " batch"],
    ) -> Float[Tensor, "batch symbol"]:
        state = self.embedding(tokens) + self.places[: tokens.shape[1]]
        for layer in self.layers:
            state = layer(state, real)
        return self.answer(state[torch.arange(len(tokens), device=tokens.device), asked])


def _tokens(layout: Layout, others: int) -> Float[Tensor, "token hidden"]:
    """Return what each token says: a symbol as key, value or question, or nothing that anyone looks for."""
    axes = torch.eye(layout.width)
    kinds = [axes[layout.start, None], *(axes[layout.span(part)] for part in ("key", "value", "ask"))]
    return torch.cat([*kinds, axes[layout.other : layout.other + others]])


def _program(layout: Layout) -> list[Lookup]:
    """Write the three layers down."""
    rest = torch.zeros(layout.width)
    rest[layout.start] = SHARPNESS / 2
    owners = layout.move("owner", "owner") + layout.resting()
    return [
        Lookup(SHARPNESS * layout.place_before(), layout.only_places(), layout.move("key", "owner"), 0 * rest),
        Lookup(SHARPNESS * layout.move("ask", "owner"), owners, layout.move("value", "found"), rest),
        Lookup(SHARPNESS * layout.move("found", "owner"), owners, layout.move("value", "result"), rest),
    ]


def _turned(layer: Lookup, rotation: Float[Tensor, "hidden hidden"]) -> Lookup:
    """Write a layer for states that are rotated: the axes of the program are then no axes of the state."""
    ask, match, move = (rotation.T @ part.weight @ rotation for part in (layer.query, layer.key, layer.value))
    return Lookup(ask, match, move, layer.query.bias @ rotation)


def adapt_two_hop(model: TwoHopModel) -> Adapter:
    """Name the input, before places are added, and what each layer leaves."""
    layers = [Site(f"layer {number}", layer) for number, layer in enumerate(model.layers, start=1)]
    return Adapter(model, [Site("embedding", model.embedding), *layers])
