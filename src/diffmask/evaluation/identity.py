"""What a comparison is of, in words and hashes: a stopped one may only go on where all of it is the same."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..models.fingerprint import fingerprint_of
from .subject import Subject


def identity(subject: Subject, batches: Sequence[Sequence[int]], **named: Mapping[str, Any]) -> dict[str, Any]:
    """Say what makes the figures: the model, what it reads, what stands in, and the methods and metrics by name.

    Whoever marks units is known by name alone.
    """
    return {
        "model": subject.model.fingerprint,
        "data": _data(subject, batches),
        "baseline": describe(subject.baseline),
        "marks": [describe(subject.truth), describe(subject.rationale)],
        **{kind: {name: describe(one) for name, one in things.items()} for kind, things in named.items()},
    }


def describe(thing: Any) -> str:
    """Write settings out, and what has weights by their hash; anything else by its name, the same in every process."""
    if isinstance(thing, nn.Module):
        return fingerprint_of(thing)
    if isinstance(thing, Tensor):
        return fingerprint_of(nn.ParameterList([nn.Parameter(thing.detach(), requires_grad=False)]))
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        fields = [field for field in dataclasses.fields(thing) if field.compare]  # the others are what it remembers
        settings = (f"{field.name}={describe(getattr(thing, field.name))}" for field in fields)
        return f"{type(thing).__name__}({', '.join(settings)})"
    if thing is None or isinstance(thing, str | int | float | tuple | list | dict):
        return repr(thing)
    return str(getattr(thing, "__qualname__", type(thing).__qualname__))


def _data(subject: Subject, batches: Sequence[Sequence[int]]) -> str:
    """Hash what the model reads, also where no unit can be dropped: a question, or what a prompt is continued with."""
    digest = hashlib.sha256()
    for rows in batches:
        for tensor in subject.question(rows).batch.tensors:
            digest.update(repr(tuple(tensor.shape)).encode())
            digest.update(tensor.detach().cpu().contiguous().unsqueeze(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]
