"""How alike two orders are: Kendall's τ-b, of one pair of rankings or of a batch of them."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

PAIRS = 1 << 24  # pairs of units that are compared at once


def kendall(first: Float[Tensor, " unit"], second: Float[Tensor, " unit"]) -> Float[Tensor, ""]:
    """Return Kendall's τ-b, which takes ties into account; NaN if either ranks nothing, or holds a NaN.

    τ-b = (concordant − discordant) / √(pairs untied in one · pairs untied in the other).
    """
    a, b = ((values.unsqueeze(1) - values).sign() for values in (first, second))
    scale = (a.abs().sum(dtype=torch.double) * b.abs().sum(dtype=torch.double)).sqrt()
    wild = first.isnan().any() | second.isnan().any()  # its differences have a sign of 0, as if it tied with all
    return torch.where((scale > 0) & ~wild, (a * b).sum(dtype=torch.double) / scale, torch.nan)


def kendall_rows(
    first: Float[Tensor, "batch unit"], second: Float[Tensor, "batch unit"], valid: Bool[Tensor, "batch unit"]
) -> Float[Tensor, " batch"]:
    """Return Kendall's τ-b of each row over its valid units, NaN as for a row alone."""
    size = max(1, PAIRS // max(1, valid.shape[1] ** 2))
    parts = zip(*(torch.split(values, size) for values in (first, second, valid)), strict=True)
    return torch.cat([_kendall_rows(*part) for part in parts])


def _kendall_rows(first: Tensor, second: Tensor, valid: Tensor) -> Tensor:
    pairs = valid.unsqueeze(2) & valid.unsqueeze(1)  # (batch, unit, unit)
    a, b = (
        torch.where(pairs, (values.unsqueeze(2) - values.unsqueeze(1)).sign(), 0).flatten(1)
        for values in (first, second)
    )
    scale = (a.abs().sum(1, dtype=torch.double) * b.abs().sum(1, dtype=torch.double)).sqrt()
    wild = ((first.isnan() | second.isnan()) & valid).any(1)
    return torch.where((scale > 0) & ~wild, (a * b).sum(1, dtype=torch.double) / scale, torch.nan)
