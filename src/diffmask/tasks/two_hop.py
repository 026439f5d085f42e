"""Two hops: facts such as "a owns b" and "b owns c", and the question what it is that a's own owns.

A fact is a key followed by its value. The question, at the last unit, names a key; its value is the key of a second
fact, and that fact's value is the answer. Further facts and fillers stand around them. For a model that looks up one
fact per layer it is known which units matter at each depth, and which it can tell by then.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from ..types import Batch, Categorical, Prediction
from .task import Task
from .truth import Truth

SYMBOLS, FILLERS = 5, 3
START, KEY, VALUE, ASK, FILLER = 0, 1, 1 + SYMBOLS, 1 + 2 * SYMBOLS, 1 + 3 * SYMBOLS  # the first token of each kind
TOKENS = FILLER + FILLERS
FACTS, MOST_FILLERS = (3, 4), 3
LONGEST = 1 + 2 * FACTS[1] + MOST_FILLERS + 1
DEPTHS = 4  # the input, and after each of three layers


@dataclass(frozen=True)
class Story:
    """One example: its tokens after the start token, and where its two facts stand (the place of each key)."""

    tokens: list[int]
    first: int
    second: int

    @property
    def values(self) -> list[int]:
        """Where values stand, of every fact."""
        return [place for place, token in enumerate(self.tokens) if VALUE <= token < ASK]

    @property
    def facts(self) -> list[int]:
        """Where keys and values stand, of every fact."""
        return [place for place, token in enumerate(self.tokens) if KEY <= token < ASK]


class TwoHop(Task):
    """Examples drawn with a seed. The start token is no unit: attention rests there when nothing fits."""

    def __init__(self, seed: int, count: int = 4000, test_count: int = 100) -> None:
        dice = random.Random(f"two hops {seed}")
        self.stories = [draw_story(dice) for _ in range(count)]
        held = count - test_count
        self.train, self.validation = range(held - held // 10), range(held - held // 10, held)
        self.test = range(held, count)

    def collate(self, examples: Sequence[Any]) -> Batch:
        rows = [[START, *self.stories[i].tokens] for i in examples]
        tokens = torch.tensor([row + [START] * (LONGEST - len(row)) for row in rows])
        lengths = torch.tensor([len(row) for row in rows])
        real = torch.arange(LONGEST) < lengths.unsqueeze(1)
        valid = real & (torch.arange(LONGEST) > 0)
        return Batch({"tokens": tokens, "real": real, "asked": lengths - 1}, valid, ask=lengths - 1)

    def read(self, output: Any, batch: Batch) -> Prediction:
        return {"answer": Categorical(output)}

    def truth(self, examples: Sequence[int], depth: int) -> Truth:
        """Say which units matter at a depth: less and less, until only where the answer is given does.

        At the input both facts, key and value, and the question; after the first layer, which tells every value its
        key, their values; after the second, which brings the first value to the question, the second value.
        """
        places = [_needed(self.stories[i], depth) for i in examples]
        return Truth(_mask(places), [[frozenset(1 + place for place in needed)] for needed in places])

    def knowable(self, examples: Sequence[int], depth: int) -> Bool[Tensor, "batch unit"]:
        """Mark what must be kept by one who knows a unit's state at a depth and the state of the question, no more.

        Before the first value has reached the question nobody there can tell which fact is the second one, so each may
        be; from then on what is knowable is what matters.
        """
        return _mask([_told(self.stories[i], depth) for i in examples])


def _needed(story: Story, depth: int) -> list[int]:
    first, second = story.first, story.second
    facts: tuple[list[int], ...] = ([first, first + 1, second, second + 1], [first + 1, second + 1], [second + 1], [])
    return [*facts[depth], len(story.tokens) - 1]


def _told(story: Story, depth: int) -> list[int]:
    if depth > 1:
        return _needed(story, depth)
    return [*(story.values if depth else story.facts), len(story.tokens) - 1]


def _mask(places: Sequence[Sequence[int]]) -> Bool[Tensor, "batch unit"]:
    """Mark units, counted after the start token, of each example."""
    mask = torch.zeros(len(places), LONGEST, dtype=torch.bool)
    for row, found in enumerate(places):
        mask[row, [1 + place for place in found]] = True
    return mask


def draw_story(dice: random.Random) -> Story:
    """Draw a chain of two facts, facts that mislead, fillers between facts, and the question."""
    count = dice.choice(FACTS)
    keys = dice.sample(range(SYMBOLS), count)
    values = [keys[1], *(dice.choice([s for s in range(SYMBOLS) if s != keys[1]]) for _ in keys[1:])]
    facts = [[KEY + key, VALUE + value] for key, value in zip(keys, values, strict=True)]
    fillers = [[FILLER + dice.randrange(FILLERS)] for _ in range(dice.randint(1, MOST_FILLERS))]
    parts = [*facts, *fillers]
    dice.shuffle(parts)
    tokens = [token for part in parts for token in part] + [ASK + keys[0]]
    return Story(tokens, tokens.index(KEY + keys[0]), tokens.index(KEY + keys[1]))
