"""Tiny recurrent classifiers that answer in different ways, and questions about them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from diffmask.attribution.method import Question
from diffmask.models.adapting import adapt
from diffmask.tasks.tensors import TensorTask

WIDTH, HIDDEN, WORDS = 5, 6, 12


class Reader(nn.Module):
    """Embeds words, reads them with a recurrent layer, and answers from what `read` takes of its states."""

    def __init__(self, layer: nn.Module, read: str = "last", hidden: int = HIDDEN) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        nn.init.normal_(self.embedding.weight, std=2.0)
        self.between = nn.Linear(WIDTH, WIDTH)
        self.layer, self.read = layer, read
        self.answer = nn.Linear(hidden, 3)
        nn.init.normal_(self.answer.weight, std=3.0)

    def forward(self, words: Tensor, length: Tensor) -> Tensor:
        state = torch.tanh(self.between(self.embedding(words)))
        if isinstance(self.layer, nn.RNNCellBase):
            return self.answer(self._loop(state, length))
        first = getattr(self.layer, "batch_first", True)
        states, ends = self.layer(state if first else state.transpose(0, 1))
        states = states if first else states.transpose(0, 1)
        if self.read == "last":
            return self.answer(states[torch.arange(len(words)), length - 1])
        if self.read == "end":
            return self.answer((ends[0] if isinstance(ends, tuple) else ends)[-1])
        return self.answer(states.mean(1))

    def _loop(self, state: Tensor, length: Tensor) -> Tensor:
        part = None
        last = []
        for step in range(state.shape[1]):
            part = self.layer(state[:, step], part)
            last.append(part[0] if isinstance(part, tuple) else part)
        return torch.stack(last, 1)[torch.arange(len(state)), length - 1]


LAYERS = {
    "gru": lambda: nn.GRU(WIDTH, HIDDEN, batch_first=True),
    "gru, steps first": lambda: nn.GRU(WIDTH, HIDDEN),
    "gru of two layers": lambda: nn.GRU(WIDTH, HIDDEN, 2, batch_first=True),
    "gru without bias": lambda: nn.GRU(WIDTH, HIDDEN, bias=False, batch_first=True),
    "lstm": lambda: nn.LSTM(WIDTH, HIDDEN, batch_first=True),
    "lstm of two layers": lambda: nn.LSTM(WIDTH, HIDDEN, 2),
    "rnn": lambda: nn.RNN(WIDTH, HIDDEN, batch_first=True),
    "rnn with relu": lambda: nn.RNN(WIDTH, HIDDEN, nonlinearity="relu", batch_first=True),
    "gru cell": lambda: nn.GRUCell(WIDTH, HIDDEN),
    "lstm cell": lambda: nn.LSTMCell(WIDTH, HIDDEN),
}


def ask_reader(
    layer: str | nn.Module = "gru",
    read: str = "last",
    lengths: tuple[int, ...] = (7, 4),
    padding: int = 0,
    seed: int = 0,
) -> Question:
    """Ask which words matter to a random reader, of sentences that are padded on the right."""
    torch.manual_seed(seed)
    layer = LAYERS[layer]() if isinstance(layer, str) else layer
    both = getattr(layer, "bidirectional", False)
    model = Reader(layer, read, HIDDEN * (1 + both)).eval()
    words = torch.randint(1, WORDS, (len(lengths) + 1, max(lengths) + padding))
    length = torch.tensor([*lengths, max(lengths)])
    valid = torch.arange(words.shape[1]) < length.unsqueeze(1)
    task = TensorTask({"words": words * valid, "length": length}, valid, validation_count=1)
    adapter = adapt(model, sites=["embedding"])
    return Question(adapter, task, task.collate(range(len(lengths))), 0, torch.randn(WIDTH))
