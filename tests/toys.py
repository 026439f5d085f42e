"""A model small enough to know the answer: tokens 2 and 3 are evidence for and against, 0 and 1 are not."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from diffmask.models.adapter import Adapter
from diffmask.models.sites import Site
from diffmask.tasks.tensors import TensorTask
from diffmask.training.config import FitConfig, recipe

EVIDENCE = torch.tensor([0.0, 0.0, 3.0, -3.0])
BLOCK_COUNT = 2


class Block(nn.Module):
    """Passes its state on and counts how often it ran."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4, bias=False)
        nn.init.eye_(self.linear.weight)
        self.calls = 0

    def forward(self, state: Tensor) -> Tensor:
        self.calls += 1
        return self.linear(state)


class Evidence(nn.Module):
    """Adds up the evidence of its tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(4, 4)
        nn.init.eye_(self.embedding.weight)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCK_COUNT))
        self.dropout = nn.Dropout(0.5)
        self.answer = nn.Linear(4, 1, bias=False)
        with torch.no_grad():
            self.answer.weight.copy_(EVIDENCE)
        self.passes = 0

    def forward(self, tokens: Tensor, valid: Tensor) -> Tensor:
        self.passes += 1
        state = self.embedding(tokens)
        for block in self.blocks:
            state = block(state)
        evidence = self.answer(self.dropout(state)).squeeze(-1)
        return (evidence * valid).sum(1)


def evidence_model(model: nn.Module | None = None) -> Adapter:
    model = model or Evidence()
    sites = [Site("embedding", model.embedding)]
    return Adapter(model, sites + [Site(f"block {i}", block) for i, block in enumerate(model.blocks)])


def evidence_task(count: int = 400, unit_count: int = 6, seed: int = 0) -> TensorTask:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, 4, (count, unit_count), generator=generator)
    length = torch.randint(1, unit_count + 1, (count, 1), generator=generator)
    valid = torch.arange(unit_count) < length
    return TensorTask({"tokens": tokens * valid, "valid": valid}, valid, "bernoulli", validation_count=100)


def small_recipe(name: str = "default", **changes: object) -> FitConfig:
    """A recipe short enough for a unit test; the model is so small that it suffices."""
    config = recipe(name, **{"kind": "hidden", "margin": 0.1, "steps": 400, "batch_size": 64, **changes})
    baseline = replace(config.probe.baseline, ablation_steps=40, ablation_rate=0.1)
    return replace(config, probe=replace(config.probe, baseline=baseline))
