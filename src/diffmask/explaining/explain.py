"""Explain inputs with a fitted probe: one forward pass, and one more to verify what it says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import DataError, SettingError
from ..explanation import Explanation
from ..gates.probe import Probe
from ..gates.votes import kept
from ..registry import unknown
from ..tasks.task import Task
from ..training.fit import Fit
from ..training.step import Look, look
from ..types import check_finite
from .verify import Measured, measure, verification


@torch.no_grad()
def explain(
    fitted: Fit, examples: Sequence[Any], *, depth: int | str = -1, verify: bool = True, batch_size: int = 64
) -> list[Explanation]:
    """Explain each example: scores at every depth, and the kept set at `depth`, verified unless told otherwise.

    A depth is a number, which may count from the end, or the name of its site.
    """
    depth = check_depth(fitted.probe, depth)
    found = []
    with fitted.model.frozen():
        for chunk, seen in looks(fitted, examples, batch_size):
            scores = fitted.probe.log_keep(seen.reading)
            chosen = kept(scores[depth]) & seen.batch.valid
            measured = measure(fitted, seen, depth, chosen) if verify else None
            found += describe(fitted, chunk, seen, scores, depth, measured or chosen)
    return found


def looks(fitted: Fit, examples: Sequence[Any], batch_size: int) -> Iterator[tuple[Sequence[Any], Look]]:
    """Look at the examples batch by batch, refusing predictions that cannot be explained."""
    if not isinstance(examples, Sequence):
        raise DataError(f"examples must be a list, got {type(examples).__name__}: to explain one, pass [example]")
    if len(examples) == 0:
        raise DataError("there is nothing to explain: no examples were given")
    for start in range(0, len(examples), batch_size):
        chunk = examples[start : start + batch_size]
        seen = look(fitted.model, fitted.task, fitted.task.collate(chunk).to(fitted.model.device))
        check_finite(seen.original, f" in the batch from example {start} on")
        yield chunk, seen


def describe(
    fitted: Fit,
    examples: Sequence[Any],
    seen: Look,
    scores: Float[Tensor, "depth batch unit"],
    depth: int,
    result: Measured | Tensor,
    certified: bool = False,
) -> list[Explanation]:
    """Make one explanation per example, without its padding."""
    chosen = result.kept if isinstance(result, Measured) else result
    info = {
        "fingerprint": fitted.fingerprint,
        "kind": fitted.config.probe.kind,
        "margin": fitted.config.objective.margin,
        **_about(fitted.task),
    }
    explanations = []
    for row, units in enumerate(fitted.task.units(examples)):
        real = seen.batch.valid[row]
        explanations.append(
            Explanation(
                units=tuple(units),
                depths=fitted.probe.site_names,
                scores=scores[:, row, real].cpu(),
                depth=depth,
                kept=chosen[row, real].cpu(),
                verification=verification(fitted, seen, result, row) if isinstance(result, Measured) else None,
                certified=certified,
                info=info,
            )
        )
    return explanations


def _about(task: Task) -> dict[str, list[Any]]:
    """Return what a reader needs to know of the examples: the names of the labels, the rows and columns of an image."""
    found = {name: getattr(task, name, None) for name in ("labels", "grid")}
    return {name: list(value) for name, value in found.items() if value is not None}


def check_depth(probe: Probe, depth: int | str) -> int:
    """Turn a depth, which may count from the end or be a site's name, into an index."""
    if isinstance(depth, str):
        if depth not in probe.site_names:
            raise SettingError(unknown("depth", depth, probe.site_names))
        return probe.site_names.index(depth)
    if not -probe.depth_count <= depth < probe.depth_count:
        raise SettingError(
            f"depth {depth} does not exist: this probe has {probe.depth_count} "
            f"(0 is '{probe.site_names[0]}', {probe.depth_count - 1} is '{probe.site_names[-1]}')"
        )
    return depth % probe.depth_count
