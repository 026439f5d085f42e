"""How rankers learn: of two sets of as many units, the one they score higher should keep the prediction better.

Two sets S and T of the same random size are kept in turn, and the scores φ of the units learn by least squares how much
better S does:

    loss = E_S,T ( v(S) − v(T) − (Σ_S φ − Σ_T φ) / √n )²        v(S) = −D(prediction ‖ prediction from S alone)

Where sizes are even between one unit and all but one, what is learned is a unit's mean effect over all budgets: that of
keeping it in small sets, and of removing it from large ones. Where a set is always half of the units, each pair asks of
every unit, and says the most for its two passes. The model is only run, never differentiated: the gradient
at a hard choice is local and says little about the choice. Every comparison is a new draw, so that there is nothing to
learn by heart, and no λ that could collapse. With the log-odds of the decision as v, the scores have a direction: what
speaks for it comes first, what speaks against it last.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from ..gates.budget import draw_pair
from ..gates.noise import Part
from ..gates.probe import Probe
from ..objective.worth import ComparisonConfig, worth
from .step import Look


def compare_sets(
    seen: Look,
    probe: Probe,
    config: ComparisonConfig,
    depths: Sequence[int],
    generator: torch.Generator,
    part: Part | None = None,
) -> Float[Tensor, "depth batch"]:
    """Return how far the scores of each depth are off, squared, on average over pairs of sets drawn anew."""
    valid = seen.batch.valid
    pairs = [draw_pair(valid, generator, part, config.sizes) for _ in range(config.pairs)]
    sites = {probe.site_name(depth): depth for depth in depths}
    better = {site: how_much_better(seen, probe, config, depth, pairs) for site, depth in sites.items()}
    known = torch.stack([better[probe.site_name(depth)] for depth in depths])  # (depth, pair, batch)
    scores = torch.stack([probe.rank(seen.reading, depth) for depth in depths]) / valid.sum(1, keepdim=True).sqrt()
    guessed = torch.einsum("pbu,dbu->dpb", torch.stack([one - other for one, other in pairs]), scores)
    return (known - guessed).square().mean(1)


@torch.no_grad()
def how_much_better(
    seen: Look, probe: Probe, config: ComparisonConfig, depth: int, pairs: Sequence[tuple[Tensor, Tensor]]
) -> Float[Tensor, "pair batch"]:
    """Run the model on all sets in one pass and say how much better the first of each pair does."""
    keeps = [keep for pair in pairs for keep in pair]
    masked = seen.masked_each(probe, [depth] * len(keeps), keeps)
    found = torch.stack([worth(seen.original, each, config.measure, config.most) for each in masked])
    return found[::2] - found[1::2]
