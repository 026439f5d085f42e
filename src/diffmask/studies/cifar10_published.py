"""The published protocol of Vision DiffMask's Table 1, and its numbers: 50 images, pixels, noise, and unit spacing.

As the authors' code has it: the first test images; 29 points from nothing to everything removed; pixels in the order of
the scores laid out over them, by the nearest patch or, for Grad-CAM and Chefer, between patches; one draw of uniform
noise for all; "accuracy" is the mean probability of the predicted class and "KL" is −log of it; the area is the
trapezoid rule with a spacing of 1, so that it is at most 28. Our classifier is another (ViT-S/14 at 112 pixels, not
ViT-B/16 at 224), so the numbers stand beside each other and are no reproduction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..explanation import to_pixels
from ..tasks.stored_images import StoredImages
from ..training.fit import Fit
from .cifar10_curves import CHEFER_READ, DISCARDING

POINTS, SEED = 29, 123
BETWEEN = ("grad-cam", "chefer", CHEFER_READ)  # their maps are blended between patches
MEASURES = ("most_first_nll", "least_first_nll", "most_first_probability", "least_first_probability")
# Nalmpantis et al. (2023), Table 1, from the stored curves: −log p most and least important first, then p.
TABLE_1 = {
    "keep set": (39.292, 17.430, 12.895, 21.817),
    "grad-cam": (43.632, 37.824, 12.630, 14.727),
    DISCARDING: (23.534, 26.134, 18.781, 17.819),
    "chefer": (50.459, 31.250, 9.811, 17.056),
}
PROTOCOL = (*TABLE_1, "rollout", CHEFER_READ, "ranking", "ranking and comparisons")  # whom it is asked of


def published_protocol(
    scores: Mapping[str, Float[Tensor, "image unit"]], fitted: Fit, examples: Sequence[int]
) -> dict[str, dict[str, float]]:
    """Return the four areas of each method on a few images."""
    return {
        name: _areas(fitted, examples, found, "bilinear" if name in BETWEEN else "nearest")
        for name, found in scores.items()
    }


def beside_published(ours: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, Any]:
    """Average our areas over seeds and put the published ones beside them."""
    return {
        name: {
            **{measure: sum(found[name][measure] for found in ours) / len(ours) for measure in MEASURES},
            "published": dict(zip(MEASURES, TABLE_1[name], strict=True)) if name in TABLE_1 else None,
        }
        for name in ours[0]
    }


@torch.no_grad()
def _areas(fitted: Fit, examples: Sequence[int], scores: Float[Tensor, "image unit"], how: Any) -> dict[str, float]:
    task, model = fitted.task, fitted.model
    assert isinstance(task, StoredImages)
    pixels = task.collate(examples).inputs["pixel_values"]
    noise = _noise(task, pixels)
    maps = to_pixels(scores, task.grid, task.size, how).flatten(1)
    with model.frozen():
        chosen = _log_probs(model.model, pixels).argmax(-1, keepdim=True)
        curves = [_curve(model.model, pixels, noise, order, chosen) for order in (-maps, maps)]
    areas = [torch.trapezoid(curve.mean(1), dim=0) for curve in (*(-c for c in curves), *(c.exp() for c in curves))]
    return {name: float(value) for name, value in zip(MEASURES, areas, strict=True)}


def _curve(
    model: Any, pixels: Tensor, noise: Tensor, order: Float[Tensor, "image pixel"], chosen: Tensor
) -> Float[Tensor, "point image"]:
    """Return the log-probability of the decision as the pixels lowest in `order` become noise."""
    place = order.argsort(dim=1, stable=True).argsort(dim=1).view(len(pixels), 1, *pixels.shape[2:])
    counts = [round(step * order.shape[1] / (POINTS - 1)) for step in range(POINTS)]
    found = [_log_probs(model, torch.where(place < count, noise, pixels)).gather(1, chosen) for count in counts]
    return torch.cat(found, dim=1).T


def _log_probs(model: Any, pixels: Tensor) -> Float[Tensor, "image label"]:
    return model(pixel_values=pixels).logits.float().log_softmax(-1)


def _noise(task: StoredImages, pixels: Float[Tensor, "image 3 height width"]) -> Float[Tensor, "1 3 height width"]:
    """Draw one picture of uniform noise over the range of a pixel, the same for every image, step and method."""
    draw = torch.Generator().manual_seed(SEED)
    return task.normalise(torch.rand(1, *pixels.shape[1:], generator=draw).to(pixels.device))
