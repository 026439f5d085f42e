"""Hashes of a model and of its tokenizer, by which a saved probe knows them."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import torch
from torch import Tensor, nn

INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes per value


def fingerprint_of(model: nn.Module) -> str:
    """Hash the class and the weights."""
    digest = hashlib.sha256(class_name(model).encode())
    for name, tensor in sorted(model.state_dict().items()):
        if isinstance(tensor, Tensor):
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
            digest.update(_checksums(_whole(tensor)))
    return digest.hexdigest()[:16]


def vocabulary_of(tokenizer: Any) -> str | None:
    """Hash which token has which number; None of what has no vocabulary."""
    if not hasattr(tokenizer, "get_vocab"):
        return None
    return hashlib.sha256(json.dumps(sorted(tokenizer.get_vocab().items())).encode()).hexdigest()[:16]


def class_name(model: nn.Module) -> str:
    """Return the name of a model's own class: to shard a model is to give it a subclass."""
    names = [kind.__name__ for kind in type(model).__mro__]
    return names[2] if names[1] == "FSDPModule" else names[0]


def _whole(tensor: Tensor) -> Tensor:
    """Bring together what FSDP has shared out among processes, a tensor at a time."""
    gather = getattr(tensor, "full_tensor", None)
    return tensor if gather is None else gather()


def _checksums(tensor: Tensor) -> bytes:
    """Return sums over a tensor's bits, plain and by place: exact on any device, and cheap for a large model."""
    if not tensor.numel():
        return b""
    tensor = torch.view_as_real(tensor.detach()) if tensor.is_complex() else tensor.detach()
    bits = tensor.contiguous().flatten().view(INTEGERS[tensor.element_size()]).to(torch.int64)
    places = torch.arange(1, len(bits) + 1, device=bits.device)  # overflow wraps around, the same everywhere
    return f"{int(bits.sum())} {int((bits * places).sum())}".encode()
