"""Exact erasure search: the smallest sets of units that keep the prediction, found by trying sets by increasing size.

The minimum is exact and hindsighted: it keeps whatever happens to suffice for this one prediction. A model promises
nothing about a set whose subsets or supersets were tried, so no set may be left out: the search is bounded by size
alone, and ends with the first size of which a set holds. A recurrent model shares what its sets have in common
(masking/prefix_tree.py); there, sets near the margin are run again as any other model runs them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..errors import SettingError
from ..masking.precision import full_precision
from ..masking.sets import count_sets, in_order
from ..objective.constraint import Constraint
from ..training.sharing import trial_of
from ..training.trial import Example
from .method import Method, Question


@dataclass(frozen=True)
class Found:
    """What a search found for one example.

    `sets` are the smallest that were found, in the order of their units; of a search that was stopped, perhaps only the
    whole example, which always keeps its prediction. `tried` counts sets; all with fewer than `least` units are in it.
    """

    sets: Bool[Tensor, "optimum unit"]
    size: int
    least: int
    complete: bool
    tried: int


@dataclass(frozen=True)
class ExactErasure(Method):
    """1 for the units of the first smallest set that keeps decision and margin, 0 elsewhere."""

    margin: Annotated[
        float, "largest divergence of a set that keeps the prediction; inf asks for the decision alone"
    ] = 0.1
    measure: Annotated[str, "of the divergence"] = "kl"
    decision: Annotated[bool, "whether the decision must stay the same too"] = True
    smallest: Annotated[int, "size of the first sets tried; an attribution needs at least one unit"] = 1
    most_units: Annotated[int, "longest example searched without a limit: the sets double with every unit"] = 20
    limit: Annotated[int | None, "sets tried for one example before the search stops without an answer"] = None
    batch_size: Annotated[int, "sets tried in one forward pass"] = 2048

    @property
    def constraint(self) -> Constraint:
        return Constraint(self.margin, self.measure, self.decision)

    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        return torch.stack([found.sets[0] for found in search(question, self)]).float()


@torch.no_grad()
def search(question: Question, how: ExactErasure | None = None, *, every: bool = False) -> list[Found]:
    """Search each example for the smallest set that keeps its prediction, or for `every` set of that size that does."""
    how = how or ExactErasure()
    with question.model.frozen(), full_precision():
        _check_length(question, how)
        return [_search(question, row, how, every) for row in range(len(question.batch))]


def _search(question: Question, row: int, how: ExactErasure, every: bool) -> Found:
    """Try every set of one size before any of the next; all real units together always keep the prediction."""
    valid, held, tried = question.batch.valid[row], list[Tensor](), 0
    trial, units = trial_of(_example(question, row, how), how.batch_size), int(valid.sum())
    for size in range(how.smallest, units):
        everything = count_sets(units, how.smallest, size)
        for some in trial.of_size(size):
            tried += some.count
            held += [some.held] if len(some.held) else []
            if held and trial.ordered and not every:
                break
            if how.limit is not None and how.limit <= tried < everything:
                return _found(valid, held, size, False, tried)
        if held:
            return _found(valid, held if every else [in_order(torch.cat(held))[:1]], size, True, tried)
        if how.limit is not None and tried >= how.limit and size + 1 < units:
            return _found(valid, held, size + 1, False, tried)
    return _found(valid, held, units, True, tried)


def _found(valid: Bool[Tensor, " unit"], held: list[Tensor], least: int, complete: bool, tried: int) -> Found:
    """Lay the sets that hold out over the example's units; where none does, all units together do."""
    sets = in_order(torch.cat(held)) if held else valid[valid].unsqueeze(0)
    whole = torch.zeros(len(sets), len(valid), dtype=torch.bool, device=valid.device)
    whole[:, valid] = sets
    return Found(whole, int(sets[0].sum()), least, complete, tried)


def _example(question: Question, row: int, how: ExactErasure) -> Example:
    q = question
    return Example(q.model, q.task, q.batch, row, q.site_name, q.baseline, how.constraint)


def _check_length(question: Question, how: ExactErasure) -> None:
    """Refuse examples whose search may take too long, and say how long."""
    lengths = question.batch.valid.sum(1)
    row, longest = int(lengths.argmax()), int(lengths.max())
    if how.limit is not None or longest <= how.most_units:
        return
    speed, count = trial_of(_example(question, row, how), how.batch_size).speed(), 2.0 ** min(longest, 1000)
    raise SettingError(
        f"exact erasure would try up to 2^{longest} sets for an example of {longest} units, {_short(count)} of them, "
        f"which takes about {_duration(count / speed)} at the {speed:,.0f} sets a second of a first batch; "
        f"it stops at {how.most_units}. Raise most_units, set a limit on the sets tried, or use method 'greedy' or "
        "'per-example'"
    )


def _duration(seconds: float) -> str:
    """Say how long something takes in the largest unit that fits."""
    for name, length in (("years", 31_557_600.0), ("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{_short(seconds / length)} {name}"
    return f"{max(1.0, seconds):.0f} seconds"


def _short(number: float) -> str:
    """Write a number out, or its size where it is too long to read."""
    return f"{number:,.0f}" if number < 1e12 else f"{number:.0e}"
