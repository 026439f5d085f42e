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
from ..training.fit import Fit
from ..training.step import Look, look
from ..types import check_finite
from .verify import Measured, measure, verification

BATCH = 64


@torch.no_grad()
def explain(fitted: Fit, examples: Sequence[Any], *, depth: int = -1, verify: bool = True) -> list[Explanation]:
    """Explain each example: scores at every depth, and the kept set at `depth`, verified unless told otherwise."""
    depth = check_depth(fitted.probe, depth)
    found = []
    with fitted.model.frozen():
        for chunk, seen in looks(fitted, examples):
            scores = fitted.probe.log_keep(seen.states)
            kept = (scores[depth].exp() > 0.5) & seen.batch.valid
            measured = measure(fitted, seen, depth, kept) if verify else None
            found += describe(fitted, chunk, seen, scores, depth, measured or kept)
    return found


def looks(fitted: Fit, examples: Sequence[Any]) -> Iterator[tuple[Sequence[Any], Look]]:
    """Look at the examples batch by batch, refusing predictions that cannot be explained."""
    if len(examples) == 0:
        raise DataError("there is nothing to explain: no examples were given")
    device = next(fitted.probe.parameters()).device
    for start in range(0, len(examples), BATCH):
        chunk = examples[start : start + BATCH]
        seen = look(fitted.model, fitted.task, fitted.task.collate(chunk).to(device))
        check_finite(seen.original)
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
    kept = result.kept if isinstance(result, Measured) else result
    info = {
        "fingerprint": fitted.fingerprint,
        "kind": fitted.config.probe.kind,
        "margin": fitted.config.objective.margin,
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
                kept=kept[row, real].cpu(),
                verification=verification(fitted, seen, result, row) if isinstance(result, Measured) else None,
                certified=certified,
                info=info,
            )
        )
    return explanations


def check_depth(probe: Probe, depth: int) -> int:
    """Turn a depth, which may count from the end, into an index."""
    if not -probe.depth_count <= depth < probe.depth_count:
        raise SettingError(
            f"depth {depth} does not exist: this probe has {probe.depth_count} "
            f"(0 is '{probe.site_names[0]}', {probe.depth_count - 1} is '{probe.site_names[-1]}')"
        )
    return depth % probe.depth_count
