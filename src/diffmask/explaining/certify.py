"""Repair a mask that breaks its margin: add units back in order of score until the measured divergence is within it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..errors import DataError, ExampleError, InfeasibleError
from ..explanation import Explanation
from ..gates.votes import kept
from ..objective.constraint import Constraint
from ..settings import change
from ..training.fit import Fit
from ..training.step import Look, look
from .chunks import Chunk, broken_rows, check_fit, chunks
from .explain import check_depth, describe, info, send, sum_up
from .verify import Measured, measure


@torch.no_grad()
def certify(
    fitted: Fit,
    examples: Sequence[Any],
    *,
    depth: int | str = -1,
    margin: float | None = None,
    decision: bool = False,
    order: Any = None,
    batch_size: int = 64,
) -> list[Explanation]:
    """Explain each example with a kept set whose margin has been measured, and if `decision` with the same decision.

    A batch of examples with up to n units costs at most ⌈log₂(n + 1)⌉ + 2 masked passes: each example bisects on how
    many of its highest-scored units to keep, between what the probe kept and everything. What the probe keeps is meant
    for the margin it was fitted to; under a `margin` of the caller's only its order counts, and fewer may be kept.

    An `order` of the caller's, for each example a score for each unit such as `attribute` returns, is cut instead of
    the probe's, and stands in `info["order"]` of the explanation, whose `scores` remain the probe's.
    """
    check_fit(fitted)
    depth = check_depth(fitted.probe, depth)
    fewer = margin is not None or order is not None
    fitted = fitted if margin is None else with_margin(fitted, margin)
    constraint = constraint_of(fitted, decision)
    order = None if order is None else as_order(order, len(examples))
    found: dict[int, Explanation] = {}
    with fitted.model.frozen():
        for chunk, batch in chunks(fitted, examples, batch_size):
            seen = look(fitted.model, fitted.task, batch)
            chunk.check(broken_rows(seen.original))
            scores = fitted.probe.log_keep(seen.reading)
            given = None if order is None else laid_out(order, chunk, len(examples)).to(scores.device)
            measured = smallest_that_holds(fitted, seen, depth, scores[depth], constraint, fewer, given)
            answer = send(chunk, sum_up(seen, scores, measured.kept, measured))
            found.update(describe(fitted, answer, depth, info(fitted), certified=True))
    explained = [found[row] for row in range(len(examples))]
    return explained if order is None else [_ordered_by(*pair) for pair in zip(explained, order, strict=True)]


def as_order(order: Any, count: int) -> list[Tensor]:
    """Return the scores of each example as a tensor, whatever kind of numbers they are."""
    if not isinstance(order, Sequence | Tensor | np.ndarray):
        raise DataError(f"order takes a list with the scores of each example, got {type(order).__name__}")
    if len(order) != count:
        raise DataError(f"order has the scores of {len(order)} examples, and {count} are explained")
    return [_numbers(scores, row, count) for row, scores in enumerate(order)]


def _numbers(scores: Any, row: int, count: int) -> Tensor:
    try:
        return torch.as_tensor(scores).detach().cpu().double()
    except (TypeError, ValueError, RuntimeError) as error:
        raise ExampleError(f"order takes a number for each unit, got {type(scores).__name__}", row, count) from error


def laid_out(order: Sequence[Float[Tensor, " ..."]], chunk: Chunk, count: int) -> Float[Tensor, "batch unit"]:
    """Put the scores of a chunk's examples beside each other, 0 on padding; refuse what orders no units of theirs."""
    for row, real in zip(chunk.rows, chunk.valid.sum(1).tolist(), strict=True):
        if order[row].shape != (real,):
            raise ExampleError(f"order has scores of shape {tuple(order[row].shape)} for {real} units", row, count)
        if not bool(order[row].isfinite().all()):
            raise ExampleError(
                "order has a score that is NaN or infinite, which comes before or behind none", row, count
            )
    together = torch.zeros(chunk.valid.shape, dtype=torch.float64)
    together[chunk.valid] = torch.cat([order[row] for row in chunk.rows])
    return together


def _ordered_by(explanation: Explanation, scores: Float[Tensor, " unit"]) -> Explanation:
    return replace(explanation, info={**explanation.info, "order": scores.tolist()})


def with_margin(fitted: Fit, margin: float) -> Fit:
    """Return the same probe, judged by another margin."""
    return replace(fitted, config=change(fitted.config, {"margin": margin}))


def constraint_of(fitted: Fit, decision: bool = False) -> Constraint:
    """Return what a kept set has to hold: the margin of a fit, and the decision if that is asked for."""
    objective = fitted.config.objective
    return Constraint(objective.margin, objective.divergence, decision)


def smallest_that_holds(
    fitted: Fit,
    seen: Look,
    depth: int,
    scores: Float[Tensor, "batch unit"],
    constraint: Constraint,
    fewer: bool = False,
    order: Float[Tensor, "batch unit"] | None = None,
) -> Measured:
    """Bisect on the number of units kept; the upper end is always a number that was measured to hold.

    It starts from the number the probe keeps, and goes below that one only if `fewer`. Units are kept in the `order`
    of these scores, or else of the probe's.
    """
    valid, ranked = seen.batch.valid, scores if order is None else order

    def try_count(count: Int[Tensor, " batch"]) -> tuple[Measured, Bool[Tensor, " batch"]]:
        measured = measure(fitted, seen, depth, highest(ranked, valid, count))
        return measured, constraint.holds(seen.original, measured.masked)

    first = (kept(scores) & valid).sum(1)
    _, holds = try_count(first)
    least = torch.full_like(first, -1) if fewer else first - 1
    low, high = torch.where(holds, least, first), torch.where(holds, first, valid.sum(1))
    while bool((unsure := high - low > 1).any()):  # an example that is sure stays as it is, whatever its batch mates do
        middle = torch.where(unsure, (low + high) // 2, high)
        _, holds = try_count(middle)
        low, high = torch.where(unsure & ~holds, middle, low), torch.where(unsure & holds, middle, high)
    measured, holds = try_count(high)
    _confirm(measured, holds, constraint)
    return measured


def highest(
    scores: Float[Tensor, "batch unit"], valid: Bool[Tensor, "batch unit"], count: Int[Tensor, " batch"]
) -> Bool[Tensor, "batch unit"]:
    """Keep the `count` real units with the highest scores; of equal ones, the earlier."""
    order = scores.masked_fill(~valid, -torch.inf).argsort(dim=1, descending=True, stable=True)
    rank = order.argsort(dim=1)
    return (rank < count.unsqueeze(1)) & valid


def _confirm(measured: Measured, holds: Bool[Tensor, " batch"], constraint: Constraint) -> None:
    if not bool(holds.all()):
        worst = int(torch.where(holds, -torch.inf, measured.divergence).argmax())
        raise InfeasibleError(
            f"an example breaks margin {constraint.margin} even with every unit kept (divergence "
            f"{float(measured.divergence[worst]):.3g}): the model does not repeat itself; check for dropout or noise"
        )
