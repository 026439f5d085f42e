"""RISE: how probable the answer is, on average, when a unit is among those that are kept at random.

Petsiuk, Das and Saenko (2018): S = E[f(x ⊙ M) | the unit is kept], with f the probability of what was decided. The mean
runs over the masks that keep the unit, not over all divided by their expected share, which is the same with less
noise. Their masks are coarse grids, blurred, because a pixel alone is nothing; here each unit is drawn on its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError
from ..masking.mask import run_copies
from ..objective.target import target
from ..training.draws import unit_noise
from ..training.step import Look, look
from ..types import Value, split_prediction
from .method import Method, Question


@dataclass(frozen=True)
class Rise(Method):
    """The mean probability of the decision over the masks that keep a unit; of a value, its height above the least."""

    samples: Annotated[int, "masks drawn per example; the paper has 4000 to 8000"] = 1000
    keep: Annotated[float, "probability that a mask keeps a unit"] = 0.5
    batch_size: Annotated[int, "rows in one pass, one per mask and example; never fewer than the batch has"] = 256
    seed: Annotated[int, "of the masks"] = 0

    def __post_init__(self) -> None:
        for name, count in (("samples", self.samples), ("batch_size", self.batch_size)):
            if count < 1:
                raise SettingError(f"{name} of rise must be at least 1, got {count}")
        if not 0 < self.keep < 1:
            raise SettingError(f"keep of rise must lie between 0 and 1, got {self.keep}: a mask must be able to differ")

    @torch.no_grad()
    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        with question.model.frozen():
            seen = look(question.model, question.task, question.batch)
            keeps = (unit_noise(seen.batch, self.samples, self.seed) < self.keep).float()
            size = max(1, self.batch_size // len(seen.batch))
            parts = [keeps[first : first + size] for first in range(0, self.samples, size)]
            values = torch.cat([values_of(seen, question, part) for part in parts])
        return torch.where(seen.batch.valid, conditional_mean(values, keeps), 0)


def values_of(seen: Look, question: Question, keeps: Float[Tensor, "mask batch unit"]) -> Float[Tensor, "mask batch"]:
    """Return the target of every example under each of some masks, all in one pass."""
    copies = seen.batch.repeat(len(keeps))
    output = run_copies(seen.model, copies, seen.states, question.site_name, keeps, question.baseline)
    masked = split_prediction(seen.task.read(output, copies), len(keeps))
    found = torch.stack([target(prediction, seen.original) for prediction in masked])
    return found if any(isinstance(head, Value) for head in seen.original.values()) else found.exp()


def conditional_mean(
    values: Float[Tensor, "mask batch"], keeps: Float[Tensor, "mask batch unit"]
) -> Float[Tensor, "batch unit"]:
    """Average over the masks that keep a unit; what is below 0, as a value may be, is counted from the least."""
    values = values - values.amin(0).clamp_max(0)
    return torch.einsum("mb,mbu->bu", values, keeps) / keeps.sum(0).clamp_min(1)
