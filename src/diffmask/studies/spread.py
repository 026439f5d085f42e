"""How far the attributions of several seeds lie apart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..evaluation.ranking import spearman


def spread(said: Float[Tensor, "seed depth _"], counts: Sequence[int]) -> dict[str, Any]:
    """Return the standard deviation over seeds, on average and at each depth, of examples with `counts` units each.

    Scores that hardly differ from unit to unit have a small one too. So beside it stands how far units differ, and how
    alike two seeds order the units of an example.
    """
    if len(said) < 2:
        return {"mean": 0.0, "by_depth": []}
    by_depth = said.std(0).mean(1)
    return {
        "mean": float(by_depth.mean()),
        "by_depth": by_depth.tolist(),
        "between_units": float(said.std(2).mean()),
        "rank_correlation": rank_correlation(said, counts),
    }


def rank_correlation(said: Float[Tensor, "seed depth _"], counts: Sequence[int]) -> float:
    """Return Spearman's correlation within an example, on average over pairs of seeds, depths and examples."""
    found = [
        spearman(one, other)
        for part in torch.split(said, list(counts), dim=2)
        for first, second in combinations(part, 2)
        for one, other in zip(first, second, strict=True)
    ]
    return float(torch.stack(found).nanmean())
