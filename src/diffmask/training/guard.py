"""Notice when training has ended where no gate can move, and tell that from a model that needs what it keeps."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..errors import CollapseError
from ..gates.probe import Probe
from ..models.adapter import Adapter
from ..objective.objective import Objective
from ..tasks.task import Task
from ..types import Batch
from .step import look
from .validate import DepthScore

log = logging.getLogger(__name__)

Trouble = Literal["open", "closed"]
ALL_OPEN, ALL_CLOSED = 0.97, 0.02  # shares of units expected to be kept


def diagnose(
    model: Adapter,
    task: Task,
    probe: Probe,
    objective: Objective,
    score: DepthScore,
    batches: Iterator[Batch],
) -> Trouble | None:
    """Say whether a depth is stuck: closed against its margin, or open with room to spare.

    Keeping everything may be right: a layer that has not met the question cannot know what is irrelevant. So the claim
    is tested: only if a tenth of the units could go within the margin are the gates stuck rather than needed.
    """
    if objective.config.form == "rate":  # the constraint itself forbids keeping everything
        return None
    if score.expected_kept < ALL_CLOSED and score.divergence > objective.config.margin:
        return "closed"
    if score.expected_kept > ALL_OPEN:
        spare = divergence_without_a_tenth(model, task, probe, objective, score.depth, batches)
        return "open" if spare <= objective.config.margin else None
    return None


@torch.no_grad()
def divergence_without_a_tenth(
    model: Adapter, task: Task, probe: Probe, objective: Objective, depth: int, batches: Iterator[Batch]
) -> float:
    """Measure what dropping the tenth of the units with the lowest scores would change."""
    parts = []
    for batch in batches:
        seen = look(model, task, batch)
        keep = without_a_tenth(probe(seen.reading, depth).log_keep(), batch.valid)
        parts.append(objective.divergence(seen.original, seen.masked_by(probe, depth, keep)))
    return float(torch.cat(parts).mean())


def without_a_tenth(
    scores: Float[Tensor, "batch unit"], valid: Bool[Tensor, "batch unit"]
) -> Bool[Tensor, "batch unit"]:
    """Keep all real units but the tenth with the lowest scores in the batch."""
    ranked = torch.where(valid, scores, torch.inf).flatten()
    keep = valid.clone().flatten()
    keep[ranked.topk(max(1, int(valid.sum()) // 10), largest=False).indices] = False
    return keep.view_as(valid)


def give_up(trouble: Trouble, score: DepthScore, margin: float, spare: bool) -> None:
    """Say what happened, with numbers, and what to try. A mask that keeps everything is still true, so it may stay."""
    numbers = f"(kept {score.kept:.3f}, divergence {score.divergence:.3g}, margin {margin})"
    if trouble == "open":
        log.warning("depth %d keeps everything though a tenth could go %s: try more steps", score.depth, numbers)
    elif spare:
        log.warning("depth %d drops everything %s: going on with an earlier probe that held", score.depth, numbers)
    else:
        raise CollapseError(
            f"depth {score.depth} drops everything against its margin {numbers}, also after starting anew: "
            "try a larger margin or a smaller learning rate"
        )
