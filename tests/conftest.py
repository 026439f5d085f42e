"""Models small enough to know the answer, and one thread: two cores are shared with other jobs."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from browser import chromium, chromium_page
from diffmask.models.adapter import Adapter
from diffmask.models.adapting import adapt
from diffmask.types import Batch

__all__ = ["chromium", "chromium_page"]  # fixtures of tests/browser.py, for every test

torch.set_num_threads(1)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what it puts aside with Ctrl-C ignored
os.environ.pop("FORCE_COLOR", None)  # some CI sets it, and colours would stand between the words


class Block(nn.Module):
    """Mixes the units of a sequence, and counts how often it ran."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.mix = nn.Linear(hidden, hidden)
        self.runs = 0

    def forward(self, state: Tensor) -> Tensor:
        self.runs += 1
        return state + torch.tanh(self.mix(state)) + 0.5 * state.mean(1, keepdim=True)


class Tower(nn.Module):
    """Embed tokens, run three blocks, answer with three logits."""

    def __init__(self, hidden: int = 4) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, hidden)
        self.blocks = nn.ModuleList(Block(hidden) for _ in range(3))
        self.head = nn.Linear(hidden, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        state = self.embed(tokens)
        for block in self.blocks:
            state = block(state)
        return self.head(state.mean(1))


@pytest.fixture
def tower() -> Tower:
    torch.manual_seed(0)
    return Tower()


@pytest.fixture
def batch() -> Batch:
    tokens = torch.tensor([[1, 2, 3, 4, 5], [6, 5, 4, 0, 0]])
    return Batch({"tokens": tokens}, torch.tensor([[True] * 5, [True] * 3 + [False] * 2]))


@pytest.fixture
def adapter(tower: Tower) -> Adapter:
    return adapt(tower)


@pytest.fixture
def outside() -> Callable[[str], str]:
    """Run code as a user does, without the checker of types, which would complain first; return its complaint."""

    def run(code: str) -> str:
        code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n{code}"
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120).stderr

    return run
