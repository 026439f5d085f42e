"""Take what a task reads out of what a model returned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..errors import DataError, ModelError
from .task import Task

# What a model's logits may be, and the task that reads such.
NUMBER = "one number for a text", "TextRegression (--task regression)"
LABELS = "labels of a text", "TextClassification (--task classification)"
TOKEN_LABELS = "labels of every token", "TokenClassification (--task token)"
TOKENS = "tokens of a vocabulary", "NextToken (--task next-token)"


def over_labels(output: Any, task: Any, *kinds: tuple[str, str]) -> Tensor:
    """Take the logits of labels, of which each has to have a name if any has."""
    logits = logits_of(output, task, *kinds)
    if task.labels is not None and len(task.labels) != logits.shape[-1]:
        raise DataError(
            f"{len(task.labels)} labels are named ({', '.join(task.labels)}) and the model knows {logits.shape[-1]}: "
            "name each of the model's labels, in its order"
        )
    return logits


def logits_of(output: Any, task: Any, *kinds: tuple[str, str]) -> Tensor:
    """Take the logits out of what a model returned, refusing those that their shape shows to be of another kind."""
    logits = head_of(output, "logits", task)
    found = _kind_of(logits, task.tokenizer.vocab_size)
    if found not in kinds:
        raise ModelError(
            f"{type(task).__name__} reads {kinds[0][0]}, and the model gives {found[0]} (logits of shape "
            f"{tuple(logits.shape)}): take {found[1]}, or load the model with the head that fits the task"
        )
    return logits


def _kind_of(logits: Tensor, vocabulary: int) -> tuple[str, str]:
    if logits.dim() < 3:
        return NUMBER if logits.dim() < 2 or logits.shape[-1] == 1 else LABELS
    return TOKENS if logits.shape[-1] >= vocabulary else TOKEN_LABELS


def head_of(output: Any, name: str, task: Task) -> Tensor:
    """Take a head out of what a model returned, or say that it is a model for something else."""
    try:
        found: Tensor = output[name] if isinstance(output, Mapping) else getattr(output, name)
        return found
    except (AttributeError, KeyError):
        if type(output) is tuple:
            raise ModelError(
                f"{type(task).__name__} reads {name} by its name, and the model gives a tuple: set "
                "model.config.return_dict = True"
            ) from None
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
