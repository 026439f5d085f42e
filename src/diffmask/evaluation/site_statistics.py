"""What is usual at a site: the mean and the spread of its states over the task's training examples."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..attribution.method import Question
from ..errors import DataError, SettingError
from ..training.start import Moments
from ..training.step import look

BATCH = 32


@dataclass(frozen=True)
class SiteStatistics:
    """Over the positions of all units of all examples looked at, each position counted once."""

    mean: Float[Tensor, " hidden"]
    std: Float[Tensor, " hidden"]


def check_examples(name: str, examples: int) -> None:
    """Refuse to average over nothing."""
    if examples < 1:
        raise SettingError(f"examples of removal '{name}' must be at least 1, got {examples}")


@torch.no_grad()
def site_statistics(question: Question, examples: int) -> SiteStatistics:
    """Look at the states of training examples that lie evenly over the whole set, the same ones every time."""
    train, moments = question.task.train, Moments()
    if not len(train):
        raise DataError("the mean state of a site is taken over the task's training examples, and it has none")
    count = min(examples, len(train))
    chosen = [train[number * len(train) // count] for number in range(count)]
    with question.model.frozen():
        for start in range(0, count, BATCH):
            batch = question.task.collate(chosen[start : start + BATCH]).to(question.batch.valid.device)
            state = look(question.model, question.task, batch).states[question.site_name]
            moments.add(state[batch.spread(torch.zeros_like(batch.valid)) == 0])
    return SiteStatistics(*moments.mean_and_std())
