"""How much of the input a mask keeps, as a mean over the real units of each example.

The papers write E[L0], both reference codes minimise log P(z ≠ 0). The two differ where it matters: the gradient of
log P does not vanish as a gate closes, so it is sharper where the truth is a hard set, and collapses where importance
is graded and the constraint binds. Say which one made a number.
"""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from ..gates.votes import Votes
from ..registry import Registry

SPARSITIES = Registry(
    "sparsity",
    {
        "expected-l0": "diffmask.objective.sparsity:expected_l0",
        "log-open": "diffmask.objective.sparsity:log_open",
    },
)


def expected_l0(votes: Votes, valid: Bool[Tensor, "batch unit"]) -> Float[Tensor, " *depth batch"]:
    """The expected share of units kept: what the papers write."""
    return mean_over_units(votes.keep_probability(), valid)


def log_open(votes: Votes, valid: Bool[Tensor, "batch unit"]) -> Float[Tensor, " *depth batch"]:
    """The mean log probability of being kept: what the reference codes minimise."""
    return mean_over_units(votes.log_keep(), valid)


def mean_over_units(
    values: Float[Tensor, "*depth batch unit"] | Bool[Tensor, "*depth batch unit"], valid: Bool[Tensor, "batch unit"]
) -> Float[Tensor, " *depth batch"]:
    """Average over the real units of each example."""
    return (values.float() * valid).sum(-1) / valid.sum(-1)
