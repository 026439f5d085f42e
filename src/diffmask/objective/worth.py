"""How well a prediction from some of the units does, as one number that a ranking learns from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError, UnknownNameError
from ..gates.budget import Sizes
from ..registry import unknown
from ..settings import check_choices
from ..types import Prediction, Value
from .divergence import DIVERGENCES, divergence
from .target import target

SIGNED = ("log-odds", "probability")  # of what was decided; a divergence is of the whole prediction and has no sign
LEAST_DOUBT = 1e-6


@dataclass(frozen=True)
class ComparisonConfig:
    """How rankers learn: by what sets of units are compared, and how many at a time."""

    measure: Annotated[
        str, "a divergence such as kl ranks what the prediction needs; log-odds or probability, what speaks for it"
    ] = "kl"
    most: Annotated[float, "nats beyond which a difference counts no more"] = 5.0
    pairs: Annotated[int, "pairs of sets compared per example and step, from one original pass"] = 4
    sizes: Annotated[Sizes, "of the sets: from one unit to all but one, or half of the units"] = "even"

    def __post_init__(self) -> None:
        check_choices(self, "comparison")
        for name in ("most", "pairs"):
            if not getattr(self, name) > 0:
                raise SettingError(f"comparison.{name} must be positive, got {getattr(self, name)}")
        if self.measure not in (known := [*SIGNED, *DIVERGENCES.names]):
            raise UnknownNameError(unknown("measure", self.measure, known))


def worth(
    original: Prediction, masked: Prediction, measure: str = "log-odds", most: float = 5.0
) -> Float[Tensor, " batch"]:
    """Return the log-odds or the probability of what was decided, or minus a divergence; a value's is minus its error.

    Nothing counts beyond ±`most`.

    >>> from diffmask.types import Categorical
    >>> sure, unsure = ({"label": Categorical(torch.tensor([[logit, 0.0]]))} for logit in (3.0, 1.0))
    >>> worth(sure, unsure), worth(sure, unsure, "probability")
    (tensor([1.]), tensor([0.7311]))
    """
    if measure not in SIGNED or any(isinstance(head, Value) for head in original.values()):
        found = -divergence(original, masked, "kl" if measure in SIGNED else measure)
    else:
        chosen = target(masked, original)
        found = chosen.exp() if measure == "probability" else chosen - _doubt(chosen)
    return found.clamp(-most, most)


def _doubt(chosen: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    """Return the log-probability of anything but what was decided."""
    return torch.log((-torch.expm1(chosen)).clamp_min(LEAST_DOUBT))
