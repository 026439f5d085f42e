"""A linear stand-in for the model around one example: its target as a sum of what each kept unit adds.

Captum draws sets of kept units and asks the model about each; LIME and KernelSHAP differ in which sets are drawn and in
how much each of them counts. The regression itself is ours: Captum's would need scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..masking.mask import run_copies
from ..models.adapter import Adapter
from ..objective.target import target
from ..tasks.task import Task
from ..types import Batch, check_finite, split_prediction
from .step import Look, look

ValueOf = Callable[[Tensor], Tensor]  # from sets of kept units (set, unit) to the target of each
Explain = Callable[[ValueOf, int], Tensor]  # from that and the number of units to one weight per unit


@torch.no_grad()
def unit_weights(
    model: Adapter, task: Task, batch: Batch, site_name: str, baseline: Tensor | None, explain: Explain, seed: int
) -> Float[Tensor, "batch unit"]:
    """Explain one example after the other, each with the same dice: what others draw is none of its business."""
    weights = torch.zeros(batch.valid.shape, device=batch.valid.device)
    with model.frozen():
        for row in range(len(batch)):
            seen, real = look(model, task, batch.example(row)), batch.valid[row]
            with dice(seed):
                found = explain(partial(value_of_sets, seen, site_name, baseline), int(real.sum()))
            weights[row, real] = found.flatten().to(weights)
    return weights


def value_of_sets(
    seen: Look, site_name: str, baseline: Tensor | None, sets: Float[Tensor, "set real"]
) -> Float[Tensor, " set"]:
    """Return the target of the one example that was seen, for every set of its real units."""
    valid = seen.batch.valid[0]
    keeps = torch.ones(len(sets), 1, len(valid), device=valid.device)
    keeps[:, 0, valid] = sets.to(keeps)
    copies = seen.batch.repeat(len(sets))
    masked = seen.task.read(run_copies(seen.model, copies, seen.states, site_name, keeps, baseline), copies)
    check_finite(masked, " when units are replaced")
    return torch.cat([target(part, seen.original) for part in split_prediction(masked, len(sets))]).cpu()


@contextmanager
def dice(seed: int) -> Iterator[None]:
    """Seed the global generator, from which Captum draws, and put it back as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would also seed every GPU, for good
        yield


class LinearFit:
    """A weighted regression in the form Captum asks of an interpretable model: fitted to samples, then read out."""

    def __init__(self, ridge: float = 0.0) -> None:
        self.ridge = ridge

    def fit(self, train_data: Iterable[Any], **_: Any) -> None:
        ((keep, value, weight),) = train_data  # Captum hands all samples over in one piece
        self.weights = regression(keep, value, weight, self.ridge)

    def representation(self) -> Float[Tensor, " unit"]:
        return self.weights


def regression(
    keep: Float[Tensor, "set unit"], value: Float[Tensor, " set"], weight: Float[Tensor, " set"], ridge: float
) -> Float[Tensor, " unit"]:
    """Return the slopes that minimise Σ weight·(value − intercept − keep·slopes)² + ridge·|slopes|².

    Where several do, the shortest slopes are taken.
    """
    keep, value, weight = keep.double(), value.double().unsqueeze(1), weight.double().unsqueeze(1)
    share = weight / weight.sum()
    keep, value = keep - (share * keep).sum(0), value - (share * value).sum(0)  # which leaves no intercept to find
    penalty = ridge**0.5 * torch.eye(keep.shape[1], dtype=keep.dtype)
    rows = torch.cat([weight.sqrt() * keep, penalty])
    goal = torch.cat([weight.sqrt() * value, value.new_zeros(len(penalty), 1)])
    return torch.linalg.lstsq(rows, goal, driver="gelsd").solution.squeeze(1).float()
