"""The swap test: is what an explanation drops really ignored, or did it only happen to cancel out here?

Units that the same method drops elsewhere, under the same condition, take the place of those it drops here. If the
model ignores what is droppable, such units are interchangeable and nothing changes. A mask found in hindsight drops
units that matter, and fails: hindsight = D(swapped) − D(removed). Every swapped state is one that really occurs.
Keeping everything scores 0, so always read it next to the share that is kept.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..errors import SettingError
from ..models.sites import replace
from ..objective.divergence import agreement, divergence
from ..training.draws import content_generators, content_seeds
from ..training.step import Look, look
from ..types import Batch, Prediction, repeat, split_prediction
from .hits import THRESHOLD
from .metric import Case, Metric
from .remembered import Remembered
from .swap_pool import Condition, Pool, collect


@dataclass(frozen=True)
class Swapped:
    """Per example: both divergences, how often the decision flips, and the share of units kept."""

    swapped: Float[Tensor, " batch"]
    removed: Float[Tensor, " batch"]
    flips: Float[Tensor, " batch"]
    kept_fraction: Float[Tensor, " batch"]

    @property
    def hindsight(self) -> Float[Tensor, " batch"]:
        return self.swapped - self.removed


@dataclass(frozen=True)
class SwapTest:
    """Swaps dropped units for others that the method drops; NaN where the pool has none to offer."""

    draws: Annotated[int, "swapped inputs per example"] = 8
    examples: Annotated[int, "training examples, evenly spaced, whose dropped units make the pool"] = 128
    threshold: Annotated[float, "a score above it keeps the unit"] = THRESHOLD
    measure: Annotated[str, "of the divergence"] = "kl"
    rows: Annotated[int, "rows in one pass, one per draw and example; never fewer than the batch has"] = 256
    seed: Annotated[int, "of the draws"] = 0
    condition: Annotated[Condition | None, "what must be equal, e.g. the query; None: one for all examples"] = None
    _pools: Remembered[Pool] = field(default_factory=Remembered, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, value in (("draws", self.draws), ("examples", self.examples), ("rows", self.rows)):
            if value < 1:
                raise SettingError(f"{name} of the swap test must be at least 1, got {value}")

    def __call__(self, case: Case) -> Swapped:
        question, valid = case.question, case.question.batch.valid
        keep = (case.scores > self.threshold) & valid
        given = (case.method, question.task, question.site_name, question.baseline, str(valid.device))
        pool = self._pools.get(question.model.model, given, lambda: self._pool(case))
        (without,) = case.removal(question, keep.float().unsqueeze(0))
        with torch.no_grad(), question.model.frozen():
            seen = look(question.model, question.task, question.batch)
            drawn, known = self._draw(seen, pool, question.site_name, keep)
            swapped = self._run(seen, question.site_name, drawn)
        apart = torch.stack([divergence(seen.original, one, self.measure) for one in swapped]).mean(0)
        flips = torch.stack([1 - agreement(seen.original, one) for one in swapped]).mean(0)
        removed = divergence(seen.original, without, self.measure)
        kept = keep.sum(1) / valid.sum(1)
        return Swapped(apart.where(known, torch.nan), removed, flips.where(known, torch.nan), kept)

    def _pool(self, case: Case) -> Pool:
        return collect(case.question, case.method, self.threshold, self.examples, self._conditions)

    def _conditions(self, batch: Batch) -> Sequence[Hashable]:
        return [None] * len(batch) if self.condition is None else self.condition(batch)

    def _draw(
        self, seen: Look, pool: Pool, site_name: str, keep: Bool[Tensor, "batch unit"]
    ) -> tuple[Float[Tensor, "draw batch position hidden"], Bool[Tensor, " batch"]]:
        """Put drawn states at the dropped positions, and say for which examples there was one to draw."""
        batch, dropped = seen.batch, seen.batch.spread(keep) == 0
        drawn = repeat(seen.states[site_name].unsqueeze(0), self.draws)
        known = torch.ones(len(batch), dtype=torch.bool, device=dropped.device)
        each = zip(self._conditions(batch), content_seeds(batch), content_generators(batch, self.seed), strict=True)
        for row, (condition, content, generator) in enumerate(each):
            entries, count = pool.entries(condition, content), int(dropped[row].sum())
            known[row] = len(entries) > 0 or count == 0
            if len(entries) and count:
                picked = entries[torch.randint(len(entries), (self.draws, count), generator=generator)]
                drawn[:, row, dropped[row]] = pool.states[picked.to(pool.states.device)].to(drawn.dtype)
        return drawn, known

    def _run(self, seen: Look, site_name: str, drawn: Float[Tensor, "draw batch position hidden"]) -> list[Prediction]:
        """Predict from the swapped states, several draws in one pass."""
        found: list[Prediction] = []
        for part in torch.split(drawn, max(1, self.rows // len(seen.batch))):
            copies = seen.batch.repeat(len(part))
            with replace(seen.model.sites[site_name], part.flatten(0, 1)):
                found += split_prediction(seen.task.read(seen.model(copies), copies), len(part))
        return found


@dataclass(frozen=True)
class Hindsight(Metric):
    """How much further swapping takes the prediction than removing does; near 0 for what the model ignores."""

    better = "lower"
    test: SwapTest = field(default_factory=SwapTest)

    def __call__(self, case: Case) -> Float[Tensor, " batch"]:
        return self.test(case).hindsight


@dataclass(frozen=True)
class SwapFlips(Metric):
    """The share of swapped inputs on which the model decides otherwise."""

    better = "lower"
    uses_removal = False
    test: SwapTest = field(default_factory=SwapTest)

    def __call__(self, case: Case) -> Float[Tensor, " batch"]:
        return self.test(case).flips
