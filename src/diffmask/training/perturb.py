"""Put any state at a site, unit by unit: what methods that add noise to states share."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..errors import ModelError
from ..models.sites import resume
from ..types import Batch, Prediction
from .step import Look


def gated_positions(batch: Batch) -> Bool[Tensor, "batch position"]:
    """Say which positions belong to a real unit; all others keep their state."""
    return batch.spread(torch.zeros_like(batch.valid)) == 0


def lay_out(values: Float[Tensor, "batch unit width"], batch: Batch) -> Float[Tensor, "batch position width"]:
    """Lay what is said of units out over their positions; what stands at a position of no unit means nothing."""
    if batch.place is None:
        return values
    return values.gather(1, batch.place.clamp_min(0).unsqueeze(-1).expand(-1, -1, values.shape[-1]))


def predict_from(seen: Look, site_name: str, state: Float[Tensor, "batch position hidden"]) -> Prediction:
    """Predict again with other states at the gated positions of a site, computing only what comes after it."""
    original = seen.states[site_name]
    state = torch.where(gated_positions(seen.batch).unsqueeze(-1), state.to(original.dtype), original)
    with resume(seen.model.sites[site_name], state, seen.states):
        prediction = seen.task.read(seen.model(seen.batch), seen.batch)
    if state.requires_grad and not any(head.raw.requires_grad for head in prediction.values()):
        raise ModelError(
            f"no gradient reaches site '{site_name}' from the prediction, e.g. because the model runs under no_grad: "
            "use a method without gradients, such as leave-one-out"
        )
    return prediction
