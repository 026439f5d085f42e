"""The units a method drops on other inputs, from which the swap test draws."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..attribution.method import Method, Question
from ..errors import DataError
from ..training.draws import content_seeds
from ..training.step import look
from ..types import Batch

BATCH = 32
Condition = Callable[[Batch], Sequence[Hashable]]


@dataclass(frozen=True)
class Pool:
    """States of dropped units, position by position, with the condition and the content of the example of each."""

    states: Float[Tensor, "entry hidden"]
    conditions: list[Hashable]
    contents: list[int]

    def entries(self, condition: Hashable, content: int) -> Int[Tensor, " entry"]:
        """Number the states that may stand in another example: of the same condition, and not its own."""
        pairs = enumerate(zip(self.conditions, self.contents, strict=True))
        fitting = [number for number, (its, owner) in pairs if its == condition and owner != content]
        return torch.tensor(fitting, dtype=torch.long)


def collect(question: Question, method: Method, threshold: float, examples: int, condition: Condition) -> Pool:
    """Ask the method about training examples that lie evenly over the set, and collect what it drops there."""
    train = question.task.train
    count = min(examples, len(train))
    if not count:
        raise DataError("the swap test takes units from the task's training examples, and it has none")
    chosen = [train[number * len(train) // count] for number in range(count)]
    batches = (question.task.collate(chosen[start : start + BATCH]) for start in range(0, count, BATCH))
    device = question.batch.valid.device
    found = [_dropped(replace(question, batch=batch.to(device)), method, threshold, condition) for batch in batches]
    return Pool(
        torch.cat([part.states for part in found]),
        [entry for part in found for entry in part.conditions],
        [entry for part in found for entry in part.contents],
    )


def _dropped(question: Question, method: Method, threshold: float, condition: Condition) -> Pool:
    batch = question.batch
    dropped = batch.spread(method(question) > threshold) == 0
    with question.model.frozen():
        state = look(question.model, question.task, batch).states[question.site_name]
    rows, conditions, contents = dropped.nonzero()[:, 0].tolist(), condition(batch), content_seeds(batch)
    return Pool(state[dropped], [conditions[row] for row in rows], [contents[row] for row in rows])
