"""What stands in for a masked unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import SettingError
from ..settings import check_choices


@dataclass(frozen=True)
class BaselineConfig:
    """Where the baseline starts, and whether it moves."""

    start: Annotated[
        Literal["ablation", "mean", "zero", "token", "noise"], "where it starts; noise: a draw of spread 1 / √width"
    ] = "ablation"
    token: Annotated[int, "with start = token: the id whose embedding it is"] = -1
    learned: Annotated[bool, "move it with the gates"] = True
    shared: Annotated[bool, "one vector for all sites (they must be of one width)"] = False
    learning_rate: Annotated[float, "of the baseline, relative to the gates'"] = 1.0
    scaled: Annotated[bool, "measure its learning rate in standard deviations of the states"] = True
    positions: Annotated[int, "at how many positions it differs at sites after the input, as states do; 0: none"] = 0
    hold: Annotated[float, "share of the training during which it stands still"] = 0.5
    ablation_steps: Annotated[int, "steps that fit it to random masks before any gate exists"] = 300
    ablation_rate: Annotated[float, "learning rate of those steps, in standard deviations of the states"] = 0.03

    def __post_init__(self) -> None:
        check_choices(self, "baseline")
        if self.positions < 0:
            raise SettingError(f"baseline.positions must be 0 or a number of positions, got {self.positions}")
        if self.start == "token" and self.token < 0:
            raise SettingError("baseline.start = token needs the token's id: set baseline.token, e.g. to [MASK]'s")


class Baseline(nn.Module):
    """One vector per masked site, or one for all; it may differ at the first `positions` positions of a site."""

    def __init__(
        self, widths: Sequence[int], learned: bool = True, shared: bool = False, positions: Sequence[int] = ()
    ) -> None:
        super().__init__()
        if shared and len(set(widths)) > 1:
            raise SettingError(f"baseline.shared needs sites of one width, these have {sorted(set(widths))}")
        self.shared = shared
        vectors = [torch.zeros(width) for width in (widths[:1] if shared else widths)]
        self.vectors = nn.ParameterList(nn.Parameter(vector, requires_grad=learned) for vector in vectors)
        # Positions beyond the last, which stays zero, all have the same baseline.
        counts = positions or [0] * len(widths)
        offsets = [torch.zeros(count + 1, width) for count, width in zip(counts, widths, strict=True)]
        self.offsets = nn.ParameterList(nn.Parameter(offset, requires_grad=False) for offset in offsets)

    def forward(self, index: int) -> Float[Tensor, " *position hidden"]:
        """Return what stands in at the masked site `index`: a vector, or one per position and one for the rest."""
        vector, offsets = self.vector(index), self.offsets[index]
        return vector + offsets if len(offsets) > 1 else vector

    def vector(self, index: int) -> Float[Tensor, " hidden"]:
        """Return the part that is the same at every position."""
        return self.vectors[0 if self.shared else index]

    def set(self, index: int, vector: Float[Tensor, " hidden"]) -> None:
        """Put it at `vector`."""
        with torch.no_grad():
            self.vector(index).copy_(vector)

    def set_offsets(self, index: int, offsets: Float[Tensor, "position hidden"]) -> None:
        """Let the baseline of a site differ by position as far as it may."""
        with torch.no_grad():
            count = min(len(offsets), len(self.offsets[index]) - 1)
            self.offsets[index][:count] = offsets[:count]
