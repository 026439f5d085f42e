"""Take what a task reads out of what a model returned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import DataError, ModelError
from .task import Task


def over_labels(output: Any, task: Task, labels: Sequence[str] | None) -> Tensor:
    """Take the logits of labels, of which each has to have a name if any has."""
    logits = head_of(output, "logits", task)
    if labels is not None and len(labels) != logits.shape[-1]:
        raise DataError(
            f"{len(labels)} labels are named ({', '.join(labels)}) and the model knows {logits.shape[-1]}: name each "
            "of the model's labels, in its order"
        )
    return logits


def head_of(output: Any, name: str, task: Task) -> Tensor:
    """Take a head out of what a model returned, or say that it is a model for something else."""
    try:
        found: Tensor = getattr(output, name)
        return found
    except AttributeError:
        has = ", ".join(output) if isinstance(output, Mapping) else type(output).__name__
        raise ModelError(
            f"{type(task).__name__} reads {name}, and the model gives {has}: load the model with the head it was "
            "trained with (AutoModelFor…), or take the task that fits it"
        ) from None


def written_apart(output: Any) -> bool:
    """Say whether an output stands at the positions of a decoder, not at those of what was read."""
    return getattr(output, "encoder_last_hidden_state", None) is not None


def at_last_real(values: Tensor, mask: Tensor) -> Tensor:
    """Take the row of the last real position of each example, padded left or right."""
    places = torch.arange(mask.shape[1], device=mask.device)
    last = (mask * places).argmax(1)
    return values[torch.arange(len(values), device=values.device), last]
