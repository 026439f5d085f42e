"""Randomisation (Adebayo et al. 2018): an explanation must change when what the model learned is destroyed.

Weights are replaced from the top down on a copy; the model itself is never touched. A fitted probe is asked as it is:
to test the way it was found, fit it anew on the randomised model.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Annotated, Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..models.adapter import Adapter
from ..models.sites import Sites
from .metric import Case, Metric
from .ranking import per_row, spearman


@dataclass(frozen=True)
class Cascade:
    """How alike the scores still are after each stage, from the top of the model to all of it."""

    stages: tuple[str, ...]
    similarity: Float[Tensor, "stage batch"]


@dataclass(frozen=True)
class Randomisation(Metric):
    """The Spearman correlation of the scores with those for a model whose weights are all random.

    NaN where either ranks nothing. Nearer to 0 is better; below it, other examples make up for it.
    """

    better = "lower"
    uses_removal = False
    ranks_only = True
    seed: Annotated[int, "of the weights"] = 0

    def __call__(self, case: Case) -> Float[Tensor, " batch"]:
        model = copied(case.question.model)
        for number, (_, stage) in enumerate(_stages(model)):
            _randomise(stage, self.seed, number)
        return _similarity(case, model)


def cascade(case: Case, seed: int = 0) -> Cascade:
    """Randomise part after part from the top, and ask the method again after each."""
    model, found = copied(case.question.model), []
    stages = _stages(model)
    for number, (_, stage) in enumerate(stages):
        _randomise(stage, seed, number)
        found.append(_similarity(case, model))
    return Cascade(tuple(name for name, _ in stages), torch.stack(found))


def copied(model: Adapter) -> Adapter:
    """Copy a model with its weights, and find its sites in the copy."""
    memory: dict[int, Any] = {}
    twin = copy.copy(model)
    twin.model = copy.deepcopy(model.model, memory)
    twin.sites = Sites(replace(site, module=memory[id(site.module)]) for site in model.sites)
    twin.passed = tuple(replace(site, module=memory[id(site.module)]) for site in model.passed)
    return twin


def _similarity(case: Case, model: Adapter) -> Float[Tensor, " batch"]:
    scores = case.method(replace(case.question, model=model))
    return per_row(spearman, case.question.batch.valid, case.scores, scores)


def _stages(model: Adapter) -> list[tuple[str, list[nn.Parameter]]]:
    """Group the weights by the module of the site they are in, else by their own module; the last registered first."""
    owned = reversed(list(_owners(model)))
    return [(name, [weight for _, weight in group]) for name, group in groupby(owned, key=lambda pair: pair[0])]


def _owners(model: Adapter) -> Iterator[tuple[str, nn.Parameter]]:
    homes = {id(site.module) for site in model.sites}
    named = [name for name, module in model.model.named_modules() if id(module) in homes and name]
    for full_name, weight in model.model.named_parameters():  # a shared weight comes once
        inside = [name for name in named if full_name.startswith(f"{name}.")]
        yield max(inside, key=len, default=full_name.rpartition(".")[0]), weight


@torch.no_grad()
def _randomise(weights: list[nn.Parameter], seed: int, stage: int) -> None:
    """Draw weights anew, each tensor with its own mean and spread: a norm's scale stays near 1, a bias of 0 at 0."""
    generator = torch.Generator().manual_seed(seed * 100_003 + stage)
    for weight in weights:
        if weight.is_floating_point() and weight.numel() > 1:
            noise = torch.randn(weight.shape, generator=generator).to(weight.device)
            usual = weight.float()
            weight.copy_(usual.mean() + usual.std(correction=0) * noise)
