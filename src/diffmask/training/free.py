"""Search gates for one batch: the same step, with logits in place of a network and one λ per example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from ..gates.free import FreeGates
from ..gates.votes import Gate
from ..models.adapter import Adapter
from ..objective.objective import Objective, ObjectiveConfig
from ..tasks.task import Task
from ..types import Batch
from .random import NOISE, generator
from .step import Look, look, step

START_DRAWS = 8  # masks per example that set where its constraint starts


@dataclass(frozen=True)
class FreeConfig:
    """How free gates are searched."""

    steps: Annotated[int, "optimiser steps"] = 500
    learning_rate: Annotated[float, "of the logits"] = 0.1
    start_open: Annotated[float, "share of units kept at the first step"] = 0.9
    seed: Annotated[int, "of the noise"] = 0


def search_gates(
    model: Adapter,
    task: Task,
    batch: Batch,
    site_name: str,
    baseline: Tensor | None,
    gate: Gate,
    objective: ObjectiveConfig,
    config: FreeConfig,
) -> Float[Tensor, "batch unit"]:
    """Find gates for every example of the batch at once, and return how likely each real unit is kept."""
    gates = FreeGates(batch.valid, site_name, baseline, gate, config.start_open)
    with model.frozen(), torch.enable_grad():
        seen = look(model, task, batch)
        terms = Objective(objective, len(batch)).to(batch.valid.device)
        terms.start.copy_(_start(seen, gates, terms, config.seed))
        optimizer = torch.optim.Adam([gates.logits], lr=config.learning_rate)
        for number in range(config.steps):
            noise = generator(config.seed, NOISE, START_DRAWS + number)
            share = [number / config.steps]
            (loss,) = step(seen, gates, terms, [0], progress=share, generator=noise, index=slice(None))
            optimizer.zero_grad()
            torch.autograd.backward(loss.total * len(batch))  # every example is a problem of its own
            optimizer.step()
    return gates.votes({}, [0])[0].keep_probability().detach() * batch.valid


@torch.no_grad()
def _start(seen: Look, gates: FreeGates, terms: Objective, seed: int) -> torch.Tensor:
    """Return where each example's constraint starts: the divergence, or the share kept, of its first masks."""
    (votes,), draws = gates.votes(seen.reading, [0]), []
    for number in range(START_DRAWS):
        keep = votes.sample(generator(seed, NOISE, number)).prod(0)
        draws.append(terms.divergence(seen.original, seen.masked_by(gates, 0, keep)))
    if terms.config.form == "rate":
        return votes.keep_probability().mean(1)
    return torch.stack(draws).mean(0)
