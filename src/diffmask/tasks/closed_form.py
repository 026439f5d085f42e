"""Tasks for models whose answer is a formula: evidence, AND, OR, XOR, majority, two copies, cancellation.

A few units carry an amount for or against; all others are distractors, and where a unit stands says nothing. What the
answer is with any set of units follows from their amounts alone, so which units matter and which sets are enough is
found here by counting, without a model.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import UnknownNameError
from ..registry import unknown
from ..types import Batch, Bernoulli, Prediction
from .task import Task
from .truth import Truth, Units, minimal_sets

Amount = tuple[float, float]  # for, against
FOR, AGAINST = (1.0, 0.0), (0.0, 1.0)
DISTRACTOR_TOKENS, MOST_DISTRACTORS, LONGEST = 10, 6, 12
SAME = 1e-6  # two logits that differ by less are the same answer


@dataclass(frozen=True)
class Formula:
    """The tokens that count, with their amounts; how the ones of an example are drawn; and the logit they make."""

    amounts: Sequence[Amount]
    draw: Callable[[random.Random], list[int]]  # which of the tokens that count an example holds
    logit: Callable[[Sequence[Amount]], float]


def _sum(amounts: Sequence[Amount]) -> float:
    return sum(plus - minus for plus, minus in amounts)


def _has(amounts: Sequence[Amount], side: int) -> bool:
    return any(amount[side] for amount in amounts)


def _sign(yes: bool) -> float:
    return 4.0 if yes else -4.0


def _of_two_kinds(kinds: Sequence[str]) -> Callable[[random.Random], list[int]]:
    """Draw which of two kinds are present, and one or sometimes two of the three tokens of each."""

    def draw(dice: random.Random) -> list[int]:
        counts = {kind: 2 if dice.random() < 0.25 else 1 for kind in dice.choice(kinds)}
        return [dice.choice(range(3)) + 3 * "ab".index(kind) for kind, count in counts.items() for _ in range(count)]

    return draw


def _draw_evidence(dice: random.Random) -> list[int]:
    """Draw up to four weights of 1 or 2 for or against that leave one side ahead, but not far: far out none matters."""
    weights = (1, 2, -1, -2)
    while True:
        drawn = [dice.randrange(4) for _ in range(dice.randint(1, 4))]
        if 1 <= abs(sum(weights[token] for token in drawn)) <= 3:
            return drawn


def _draw_voters(dice: random.Random) -> list[int]:
    return [dice.randrange(6) for _ in range(dice.choice((3, 5)))]


def _draw_copies(dice: random.Random) -> list[int]:
    return [0, 1] if dice.random() < 0.5 else [2, 3]


def _draw_cancelling(dice: random.Random) -> list[int]:
    """Draw a weak unit that decides, and two strong ones that cancel; in a third of the examples one stands alone."""
    strong = [2, 3] if dice.random() < 2 / 3 else [dice.choice((2, 3))]
    return [dice.randrange(2), *strong]


TWO_KINDS = (*[FOR] * 3, *[AGAINST] * 3)
FORMULAS = {
    "additive": Formula([(1.0, 0.0), (2.0, 0.0), (0.0, 1.0), (0.0, 2.0)], _draw_evidence, _sum),
    "and": Formula(TWO_KINDS, _of_two_kinds(["ab", "ab", "a", "b"]), lambda x: _sign(_has(x, 0) and _has(x, 1))),
    "or": Formula(TWO_KINDS, _of_two_kinds(["ab", "a", "b", ""]), lambda x: _sign(_has(x, 0) or _has(x, 1))),
    "xor": Formula(TWO_KINDS, _of_two_kinds(["ab", "ab", "a", "b", ""]), lambda x: _sign(_has(x, 0) != _has(x, 1))),
    "majority": Formula(TWO_KINDS, _draw_voters, lambda x: 3 * math.tanh(2 * _sum(x))),
    "copies": Formula([FOR, FOR, AGAINST, AGAINST], _draw_copies, lambda x: 4.0 * (_has(x, 0) - _has(x, 1))),
    "cancellation": Formula([(1.0, 0.0), (0.0, 1.0), (3.0, 0.0), (0.0, 3.0)], _draw_cancelling, _sum),
}


class ClosedFormTask(Task):
    """Examples drawn with a seed; the last `test_count` are for reporting alone."""

    def __init__(self, formula: str, seed: int, count: int = 3000, test_count: int = 200) -> None:
        if formula not in FORMULAS:
            raise UnknownNameError(unknown("formula", formula, FORMULAS))
        self.formula = FORMULAS[formula]
        dice = random.Random(f"{formula} {seed}")
        self.rows = [self._draw(dice) for _ in range(count)]
        held = count - test_count
        self.train, self.validation = range(held - held // 10), range(held - held // 10, held)
        self.test = range(held, count)

    @property
    def amounts(self) -> Float[Tensor, "token side"]:
        """What each token of the vocabulary carries for and against; the first ones are distractors and carry none."""
        return torch.tensor([(0.0, 0.0)] * DISTRACTOR_TOKENS + list(self.formula.amounts))

    def _draw(self, dice: random.Random) -> list[int]:
        counting = [DISTRACTOR_TOKENS + token for token in self.formula.draw(dice)]
        others = [dice.randrange(DISTRACTOR_TOKENS) for _ in range(dice.randint(2, MOST_DISTRACTORS))]
        row = counting + others
        dice.shuffle(row)
        return row

    def collate(self, examples: Sequence[Any]) -> Batch:
        rows = [self.rows[i] for i in examples]
        tokens = torch.tensor([row + [0] * (LONGEST - len(row)) for row in rows])
        valid = torch.arange(LONGEST) < torch.tensor([len(row) for row in rows]).unsqueeze(1)
        return Batch({"tokens": tokens, "real": valid}, valid)

    def read(self, output: Any, batch: Batch) -> Prediction:
        return {"yes": Bernoulli(output)}

    def truth(self, examples: Sequence[int], margin: float) -> Truth:
        """Say what matters in each example; a set is enough if it keeps the decision and stays within the margin."""
        relevant, sets = torch.zeros(len(examples), LONGEST, dtype=torch.bool), []
        for place, example in enumerate(examples):
            counting = {
                unit: self.formula.amounts[token - DISTRACTOR_TOKENS]
                for unit, token in enumerate(self.rows[example])
                if token >= DISTRACTOR_TOKENS
            }
            relevant[place, [unit for unit in counting if self._matters(unit, counting)]] = True
            sets.append(minimal_sets(counting, lambda kept, c=counting: self._enough(kept, c, margin)))  # type: ignore[misc]
        return Truth(relevant, sets)

    def _logit(self, kept: Units, counting: dict[int, Amount]) -> float:
        return self.formula.logit([counting[unit] for unit in sorted(kept)])

    def _matters(self, unit: int, counting: dict[int, Amount]) -> bool:
        """Say whether some set of the others answers differently with the unit than without."""

        def changes(kept: Units) -> bool:
            return abs(self._logit(kept | {unit}, counting) - self._logit(kept, counting)) > SAME

        return bool(minimal_sets(counting.keys() - {unit}, changes))

    def _enough(self, kept: Units, counting: dict[int, Amount], margin: float) -> bool:
        whole, part = (self._logit(units, counting) for units in (frozenset(counting), kept))
        return (whole > 0) == (part > 0) and bernoulli_kl(whole, part) <= margin


def bernoulli_kl(original: float, masked: float) -> float:
    """Return KL(original ‖ masked) of two yes/no answers, given their logits."""
    p, q = (1 / (1 + math.exp(-logit)) for logit in (original, masked))
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))
