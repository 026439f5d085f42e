"""Digit counting, where the right explanation is known (De Cao et al. 2020, §3.1).

A query of two digits and a sequence: is the first digit more frequent than the second? Before the model has met
the query every unit may matter; after it, exactly the units that hold a query digit do.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..types import Batch, Bernoulli, Prediction
from .task import Task

EXAMPLE_COUNT, HELD_OUT, LONGEST = 10_000, 1_000, 10


class Digits(NamedTuple):
    """All examples, those for training first."""

    query: Int[Tensor, "example 2"]
    digits: Int[Tensor, "example unit"]
    length: Int[Tensor, " example"]


class DigitCounting(Task):
    """The published data: the draws of seed 0, in the order in which the authors' notebook makes them.

    `test` is the authors' validation set, on which the paper reports. Models and probes are selected on `validation`,
    the last thousand of the authors' training set, so that nothing is selected on what is reported.
    """

    def __init__(self) -> None:
        self.data = draw_digits()
        self.train = range(EXAMPLE_COUNT - 2 * HELD_OUT)
        self.validation = range(EXAMPLE_COUNT - 2 * HELD_OUT, EXAMPLE_COUNT - HELD_OUT)
        self.test = range(EXAMPLE_COUNT - HELD_OUT, EXAMPLE_COUNT)

    def collate(self, examples: Sequence[Any]) -> Batch:
        query, digits, length = (column[torch.as_tensor(list(examples))] for column in self.data)
        valid = torch.arange(LONGEST) < length.unsqueeze(1)
        return Batch({"query": query, "digits": digits, "length": length}, valid)

    def read(self, output: Any, batch: Batch) -> Prediction:
        return {"first is more frequent": Bernoulli(output)}

    def units(self, examples: Sequence[Any]) -> list[list[str]]:
        return [[str(digit) for digit in self.data.digits[i][: self.data.length[i]].tolist()] for i in examples]


def labels(batch: Batch) -> Float[Tensor, " batch"]:
    """Answer the question by counting: ties go to the second digit."""
    first, second = (_where(batch, column).sum(1) for column in (0, 1))
    return (first > second).float()


def truth(batch: Batch, depth: int) -> Bool[Tensor, "batch unit"]:
    """Mark the units the model cannot do without: all at depth 0, those that hold a query digit at depth 1."""
    return batch.valid if depth == 0 else _where(batch, 0) | _where(batch, 1)


def _where(batch: Batch, column: int) -> Bool[Tensor, "batch unit"]:
    return (batch.inputs["digits"] == batch.inputs["query"][:, column, None]) & batch.valid


@cache
def draw_digits(seed: int = 0) -> Digits:
    """Draw all queries, then all sequences, then lengths and the split; padding holds a real 0."""
    numpy, generator = np.random.RandomState(seed), torch.Generator().manual_seed(seed)
    query = np.stack([numpy.choice(10, 2, replace=False) for _ in range(EXAMPLE_COUNT)])
    digits = torch.tensor(np.stack([numpy.choice(10, LONGEST, p=_weights(pair)) for pair in query]))
    length = torch.randint(1, LONGEST + 1, (EXAMPLE_COUNT,), generator=generator)
    digits = digits * (torch.arange(LONGEST) < length.unsqueeze(1))
    order = torch.randperm(EXAMPLE_COUNT, generator=generator)
    return Digits(torch.tensor(query)[order], digits[order], length[order])


def _weights(pair: np.ndarray) -> np.ndarray:
    """Give each query digit a quarter of the draws and the other eight the rest."""
    weights = np.full(10, 0.5 / 8)
    weights[pair] = 0.25
    return weights
