"""Infidelity (Yeh et al. 2019): do the scores of removed units add up to what the removal changes?

E over sets I of (β·Σ scores in I − change without I)². The sets are runs of neighbouring units of random length and
place, or squares where the units lie on a grid. β ≥ 0 is each example's best scale, since scores come on any; it may
not turn them around.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..errors import DataError, SettingError
from ..training.draws import content_generators
from .figure import Figure, check_figure, left, left_of, predict
from .metric import Case, Metric


@dataclass(frozen=True)
class Infidelity(Metric):
    """The mean squared error of the best-scaled scores as a prediction of what removals change."""

    better = "lower"
    samples: Annotated[int, "sets of units removed from each example"] = 64
    figure: Annotated[Figure, "of what is left of the prediction"] = "probability"
    grid_width: Annotated[int, "units in a row of an image, which are then removed by squares; 0: by runs"] = 0
    seed: Annotated[int, "of the sets"] = 0

    def __post_init__(self) -> None:
        check_figure(self.figure)
        for name, value, least in (("samples", self.samples, 1), ("grid_width", self.grid_width, 0)):
            if value < least:
                raise SettingError(f"{name} of infidelity must be at least {least}, got {value}")

    def __call__(self, case: Case) -> Float[Tensor, " batch"]:
        removed = self._sets(case)
        original = predict(case.question)
        after = left_of(original, case.removal(case.question, (~removed).float()), self.figure)
        change = (left(original, original, self.figure) - after).double()  # (sample, batch)
        return scaled_error((removed * case.scores.double()).sum(-1), change)

    def _sets(self, case: Case) -> Bool[Tensor, "sample batch unit"]:
        """Draw sets of real units, each example's from its own content."""
        valid = case.question.batch.valid.cpu()
        sets = torch.zeros(self.samples, *valid.shape, dtype=torch.bool)
        for row, generator in enumerate(content_generators(case.question.batch, self.seed)):
            shares = torch.rand(3, self.samples, generator=generator, dtype=torch.double)
            sets[:, row, valid[row]] = self._draw(int(valid[row].sum()), shares)
        return sets.to(case.scores.device)

    def _draw(self, count: int, shares: Float[Tensor, "3 sample"]) -> Bool[Tensor, "sample unit"]:
        """Turn random shares into the sizes and places of runs, or of squares on a grid."""
        size_share, along, down = shares
        if not self.grid_width:
            return _runs(count, _below(count, size_share) + 1, along)
        height, rest = divmod(count, self.grid_width)
        if rest:
            raise DataError(
                f"an example has {count} units, which are no rows of {self.grid_width}: set grid_width to the units in "
                "a row, or to 0"
            )
        size = _below(min(height, self.grid_width), size_share) + 1
        rows, columns = _runs(height, size, down), _runs(self.grid_width, size, along)
        return (rows.unsqueeze(2) & columns.unsqueeze(1)).flatten(1)


def scaled_error(sums: Float[Tensor, "sample batch"], change: Float[Tensor, "sample batch"]) -> Float[Tensor, " batch"]:
    """Return the mean squared error of each example at its best scale; scores of 0 predict no change."""
    size = sums.square().sum(0)
    scale = torch.where(size > 0, (sums * change).sum(0) / size, 0).clamp_min(0)
    return (scale * sums - change).square().mean(0)


def _below(count: int | Tensor, shares: Float[Tensor, " sample"]) -> Int[Tensor, " sample"]:
    """Turn shares in [0, 1) into whole numbers below a count, each as likely."""
    return (shares * count).floor().long()


def _runs(count: int, size: Int[Tensor, " sample"], shares: Float[Tensor, " sample"]) -> Bool[Tensor, "sample unit"]:
    start, places = _below(count - size + 1, shares).unsqueeze(1), torch.arange(count)
    return (places >= start) & (places < start + size.unsqueeze(1))
