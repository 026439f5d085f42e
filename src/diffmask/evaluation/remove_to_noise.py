"""A removed unit becomes a random state that could stand at its site as far as mean and spread tell."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from ..attribution.method import Question
from ..types import Prediction
from .remembered import Remembered
from .removal import Removal, check_rows, run_at_site
from .site_statistics import SiteStatistics, check_examples, site_statistics


@dataclass(frozen=True)
class ToNoise(Removal):
    """Gaussian noise with the mean and spread of the site's states over training examples of the task.

    The draw knows a position's number in its example and the seed, nothing else: every method, mask and batch meets
    the same noise. It is also the same for every example, so average over seeds where one draw might mislead.
    """

    name = "noise"
    seed: Annotated[int, "of the draws"] = 0
    examples: Annotated[int, "training examples, evenly spaced, whose states give mean and spread"] = 256
    rows: Annotated[int, "rows in one pass, one per mask and example; never fewer than the batch has"] = 256
    _seen: Remembered[SiteStatistics] = field(default_factory=Remembered, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_rows(self.name, self.rows)
        check_examples(self.name, self.examples)

    def describe(self, question: Question) -> str:
        return f"noise at {question.site_name}"

    def __call__(self, question: Question, keeps: Float[Tensor, "copy batch unit"]) -> list[Prediction]:
        usual = self._statistics(question)
        noise = drawn_rows(question.batch.shape[1], len(usual.mean), self.seed).to(usual.mean)
        return run_at_site(question, keeps, self.rows, lambda seen: usual.mean + usual.std * noise)

    def _statistics(self, question: Question) -> SiteStatistics:
        given = (question.task, question.site_name, str(question.batch.valid.device))
        return self._seen.get(question.model.model, given, lambda: site_statistics(question, self.examples))


def drawn_rows(count: int, hidden: int, seed: int) -> Float[Tensor, "position hidden"]:
    """Draw a standard normal row per position, one after the other: a longer batch only adds rows at the end."""
    generator = torch.Generator().manual_seed(seed)
    return torch.stack([torch.randn(hidden, generator=generator) for _ in range(count)])
