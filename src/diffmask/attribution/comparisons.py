"""Compare sets of units of this very example, and start from what a ranker has learned from all others.

Two sets S and T of as many units are kept in turn, as when rankers learn. With x = (1_S − 1_T) / √n and y how much
better S does, scores are what a ranker says, φ₀, and what the comparisons say against it:

    φ = φ₀ + argmin_δ Σ (y − x·(φ₀ + δ))² + α |δ|²

How far to believe them, α, is chosen for each example by generalised cross-validation. With few comparisons the ranker
decides, with many they do; without a ranker φ₀ is 0. A regression leaves less to chance than a mean over the sets that
keep a unit, as RISE takes it: what the other units of a set do is accounted for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError
from ..gates.budget import Sizes, make_pair
from ..gates.probe import Probe
from ..masking.mask import run_copies
from ..objective.worth import ComparisonConfig, worth
from ..training.draws import unit_noise
from ..training.fit import Fit
from ..training.step import Look, look
from ..types import Batch, split_prediction
from .method import Question, Signed
from .ranking import say_rank

DOUBTS = torch.logspace(4, -2, 25, dtype=torch.double)  # α that are tried, in units of the largest eigenvalue
ALIKE = 1 + 1e-6  # scores that differ by less are the same, and of such the largest α is taken


@dataclass(frozen=True)
class Comparisons(Signed):
    """What units are worth by comparisons, from 0 (does most against what was decided) to 1 (does most for it)."""

    probe: Annotated[Probe | None, "rankers to start from, of a fit by the recipe `ranking`"] = None
    pairs: Annotated[int, "comparisons per example, of two masked passes each"] = 200
    measure: Annotated[str, "by what sets are compared: log-odds, probability, or a divergence such as kl"] = "log-odds"
    most: Annotated[float, "nats beyond which a difference counts no more"] = 5.0
    sizes: Annotated[Sizes, "of the sets: from one unit to all but one, or half of the units"] = "even"
    depth: Annotated[int | None, "how far up the rankers read; unset, the depth that is asked about"] = None
    batch_size: Annotated[int, "rows in one pass, one per set and example; never fewer than the batch has"] = 256
    seed: Annotated[int, "of the sets"] = 0

    def __post_init__(self) -> None:
        ComparisonConfig(self.measure, self.most, self.pairs, self.sizes)  # which says what is wrong with them
        if self.batch_size < 1:
            raise SettingError(f"batch_size of comparisons must be at least 1, got {self.batch_size}")

    @classmethod
    def after(cls, ranked: Fit, **settings: Any) -> Comparisons:
        """Go on from a fit by the recipe `ranking`, comparing as it learned to: what two measures say does not add up.

        >>> Comparisons.after(ranked, pairs=500)      # doctest: +SKIP
        """
        learned = ranked.config.comparison
        return cls(
            ranked.probe, **{**{name: getattr(learned, name) for name in ("measure", "most", "sizes")}, **settings}
        )

    @torch.no_grad()
    def signed(self, question: Question) -> Float[Tensor, "batch unit"]:
        with question.model.frozen():
            seen = look(question.model, question.task, question.batch)
            first, second = draw_pairs(seen.batch, self.pairs, self.seed, self.sizes)
            better = self._worth(seen, question, first) - self._worth(seen, question, second)
        sides = (first - second).double() / seen.batch.valid.sum(1, keepdim=True).sqrt()
        known = self._ranked(seen, question).double()
        return (known + correction(sides, better.double() - torch.einsum("pbu,bu->pb", sides, known))).float()

    def _ranked(self, seen: Look, question: Question) -> Float[Tensor, "batch unit"]:
        if self.probe is None:
            return torch.zeros_like(seen.batch.valid, dtype=torch.float32)
        return say_rank(self.probe, seen, question, self.depth)

    def _worth(
        self, seen: Look, question: Question, keeps: Float[Tensor, "set batch unit"]
    ) -> Float[Tensor, "set batch"]:
        parts = torch.split(keeps, max(1, self.batch_size // len(seen.batch)))
        return torch.cat([self._worth_of(seen, question, part) for part in parts])

    def _worth_of(
        self, seen: Look, question: Question, keeps: Float[Tensor, "set batch unit"]
    ) -> Float[Tensor, "set batch"]:
        copies = seen.batch.repeat(len(keeps))
        output = run_copies(seen.model, copies, seen.states, question.site_name, keeps, question.baseline)
        masked = split_prediction(seen.task.read(output, copies), len(keeps))
        return torch.stack([worth(seen.original, each, self.measure, self.most) for each in masked])


def draw_pairs(
    batch: Batch, count: int, seed: int, sizes: Sizes = "even"
) -> tuple[Float[Tensor, "pair batch unit"], Float[Tensor, "pair batch unit"]]:
    """Draw pairs of sets for each example, whoever its batch mates are."""
    order, drawn = torch.split(unit_noise(batch, 2 * count, seed), count)
    somewhere = batch.valid.float().argmax(1, keepdim=True)  # a real unit, whose noise is the size of the sets
    shares = drawn.gather(2, somewhere.expand(count, -1, -1))
    pairs = [make_pair(share, each, batch.valid, sizes) for share, each in zip(shares, order, strict=True)]
    return torch.stack([one for one, _ in pairs]), torch.stack([other for _, other in pairs])


def correction(
    sides: Float[Tensor, "pair batch unit"], missed: Float[Tensor, "pair batch"]
) -> Float[Tensor, "batch unit"]:
    """Return the ridge regression of what was missed, with the penalty that generalised cross-validation likes best."""
    sizes, axes = torch.linalg.eigh(torch.einsum("pbu,pbv->buv", sides, sides))
    sizes = sizes.clamp_min(0)
    along = torch.einsum("buk,pbu,pb->bk", axes, sides, missed)
    doubts = DOUBTS.to(sizes)[:, None, None] * sizes[:, -1:].clamp_min(1e-12)
    shrunk = 1 / (sizes + doubts)  # (doubt, batch, axis)
    left = missed.square().sum(0) - 2 * (along.square() * shrunk).sum(2) + (sizes * (along * shrunk).square()).sum(2)
    free = (len(missed) - (sizes * shrunk).sum(2)).clamp_min(1e-9)
    scores = left / free.square()
    best = (scores <= ALIKE * scores.amin(0)).float().argmax(0)
    chosen = shrunk.gather(0, best[None, :, None].expand(1, *along.shape))[0]
    return torch.einsum("buk,bk->bu", axes, along * chosen)
