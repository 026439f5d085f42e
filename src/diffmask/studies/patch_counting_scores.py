"""How right an explanation of a count is: against the red patches or the others, whichever the explainer settled on.

The paper's looser rule, either of the two image by image, is reported beside it: attention rollout lights up whichever
is the minority, and is perfect by that rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..evaluation.auroc import auroc
from ..masking.mask import run_copies
from ..objective.divergence import agreement, divergence
from ..tasks.patch_counting import RED, UNITS, PatchCounting, as_batch, draw_others
from ..training.step import Look
from ..types import Batch, split_prediction

COPIES = 32  # sets tried in one pass over all grids


@dataclass(frozen=True)
class Sides:
    """The red patches of some images, and whether an explainer points at them or, as a whole, at the others."""

    red: Bool[Tensor, "image unit"]
    areas: Float[Tensor, " image"]  # AUROC against the red patches; NaN where all are of one kind

    @property
    def fixed(self) -> float:
        """The mean over counts of the mean AUROC, as if red were right."""
        counts = self.red.sum(1)
        means = [self.areas[counts == count].mean() for count in range(1, UNITS) if bool((counts == count).any())]
        return float(torch.stack(means).mean())

    @property
    def is_red(self) -> bool:
        return self.fixed >= 0.5

    @property
    def truth(self) -> Bool[Tensor, "image unit"]:
        return self.red if self.is_red else ~self.red


def judge_ranking(scores: Float[Tensor, "image unit"], red: Bool[Tensor, "image unit"]) -> tuple[Sides, dict[str, Any]]:
    """Score a ranking with one orientation for all images, and with the better one of each."""
    areas = torch.stack([auroc(row, marked) for row, marked in zip(scores, red, strict=True)])
    sides = Sides(red, areas)
    known = areas[~areas.isnan()]
    free = float(torch.maximum(known, 1 - known).mean())
    fixed = max(sides.fixed, 1 - sides.fixed)
    return sides, {"auroc": fixed, "auroc_free": free, "orientation": "red" if sides.is_red else "others"}


def judge_mask(keep: Bool[Tensor, "image unit"], sides: Sides) -> dict[str, float]:
    """Compare hard masks with the right ones, images of one kind alone included."""
    both, either = (keep & sides.truth).sum(1), (keep | sides.truth).sum(1)
    iou = torch.where(either > 0, both / either.clamp_min(1), 1.0)
    exact = (keep == sides.truth).all(1).float()
    return {"exact": float(exact.mean()), "iou": float(iou.mean()), "kept": float(keep.float().mean())}


def as_mask(scores: Float[Tensor, "image unit"]) -> Bool[Tensor, "image unit"]:
    """Cut scores without a threshold of their own halfway between the least and the largest of each image."""
    low, high = scores.amin(1, keepdim=True), scores.amax(1, keepdim=True)
    return scores > (low + high) / 2


@torch.no_grad()
def judge_prediction(
    seen: Look, site_name: str, keep: Bool[Tensor, "image unit"], baseline: Tensor, margin: float
) -> dict[str, float]:
    """Say how often the masks keep the prediction, with the explainer's own baseline."""
    masked = seen.masked_at(site_name, keep, baseline)
    far = divergence(seen.original, masked)
    same = agreement(seen.original, masked)
    held = {"feasible": float((far <= margin).float().mean()), "divergence": float(far.mean())}
    return {**held, "agreement": float(same.mean())}


@torch.no_grad()
def smallest_sets(seen: Look, site_name: str, baseline: Tensor, margin: float) -> Float[Tensor, " image"]:
    """Try all sets of patches of every image and return the size of the smallest that keeps its prediction."""
    numbers = torch.arange(2**UNITS, device=seen.batch.valid.device)
    sets = (numbers.unsqueeze(1) >> torch.arange(UNITS, device=numbers.device)) & 1
    best = torch.full((len(seen.batch),), torch.inf, device=numbers.device)
    for start in range(0, len(sets), COPIES):
        some = sets[start : start + COPIES]
        copies = seen.batch.repeat(len(some))
        keeps = some.float().unsqueeze(1).expand(-1, len(seen.batch), -1)
        output = run_copies(seen.model, copies, seen.states, site_name, keeps, baseline)
        for one, masked in zip(some, split_prediction(seen.task.read(output, copies), len(some)), strict=True):
            held = divergence(seen.original, masked) <= margin
            best = torch.where(held, best.clamp_max(float(one.sum())), best)
    return best


@torch.no_grad()
def judge_gap(
    seen: Look, site_name: str, keep: Bool[Tensor, "image unit"], baseline: Tensor, margin: float
) -> dict[str, float]:
    """Compare the masks that hold with the smallest sets that do.

    A mask that does not hold has failed and has no gap: `gap_feasible` says which share of the masks the gap is of.
    """
    held = divergence(seen.original, seen.masked_at(site_name, keep, baseline)) <= margin
    best = smallest_sets(seen, site_name, baseline, margin)
    more = (keep.sum(1) - best)[held]
    gap = float(more.mean()) if len(more) else float("nan")
    return {"gap": gap, "gap_feasible": float(held.float().mean()), "oracle_size": float(best.mean())}


@torch.no_grad()
def judge_recoloured(
    model: Any, task: PatchCounting, rows: range, keep: Bool[Tensor, "image unit"], sides: Sides, seed: int
) -> dict[str, float]:
    """Recolour what was dropped, which must change nothing, and one kept patch, which must change the count."""
    draw, colours, keep = torch.Generator().manual_seed(seed), task.colours[rows.start : rows.stop], keep.cpu()
    others = draw_others((len(colours), UNITS), draw)
    harmless = torch.where(keep, colours, others if sides.is_red else RED)
    flipped = torch.where(colours == RED, others, RED)
    first = keep & (keep.cumsum(1) == 1)
    before, same, moved = (
        count(model, as_batch(some)) for some in (colours, harmless, torch.where(first, flipped, colours))
    )
    kept = keep.any(1)
    return {
        "invariance": float((same == before).float().mean()),
        "sensitivity": float((moved != before)[kept].float().mean()) if bool(kept.any()) else float("nan"),
    }


def count(model: Any, batch: Batch) -> Tensor:
    """Return how many red patches the model sees."""
    answer: Tensor = model(**batch.to(model.device).inputs).logits.argmax(-1).cpu()
    return answer
