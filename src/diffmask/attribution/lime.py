"""LIME: the weights of a linear model that says the same as the model near this example.

Ribeiro, Singh and Guestrin (2016). Each unit is left out half of the time; the more of the example is left, the more a
set counts, by the cosine between the two: with k of n units left, exp(−(1 − √(k/n))² / 2·width²). Captum does the
sampling.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, sqrt
from typing import Annotated, Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError
from ..objective.captum_engine import captum_methods
from ..training.surrogate import LinearFit, ValueOf, unit_weights
from .method import Method, Question


@dataclass(frozen=True)
class Lime(Method):
    """The size of a unit's weight in the linear model."""

    samples: Annotated[int, "sets of units drawn per example"] = 200
    width: Annotated[float, "of the neighbourhood: how fast a set counts less with its distance, from 0 to 1"] = 0.25
    ridge: Annotated[float, "price of large weights, which keeps few samples from being fitted too well"] = 1.0
    batch_size: Annotated[int, "sets in one forward pass"] = 64
    seed: Annotated[int, "of the draws"] = 0

    def __post_init__(self) -> None:
        for name, count in (("samples", self.samples), ("batch_size", self.batch_size)):
            if count < 1:
                raise SettingError(f"{name} of lime must be at least 1, got {count}")
        if self.width <= 0:
            raise SettingError(f"width of lime must be positive, got {self.width}: at 0 no set would count")
        if self.ridge < 0:
            raise SettingError(f"ridge of lime must not be negative, got {self.ridge}: 0 asks for no price")

    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        return self.signed(question).abs()

    def signed(self, question: Question) -> Float[Tensor, "batch unit"]:
        """Return what each unit adds to the target, or takes from it, as the linear model has it."""
        q = question
        return unit_weights(q.model, q.task, q.batch, q.site_name, q.baseline, self._explain, self.seed)

    def _explain(self, value_of: ValueOf, unit_count: int) -> Float[Tensor, " unit"]:
        engine = captum_methods().Lime(value_of, LinearFit(self.ridge), self._nearness)
        how = {"n_samples": self.samples, "perturbations_per_eval": self.batch_size, "return_input_shape": False}
        return engine.attribute(torch.ones(1, unit_count), **how)

    def _nearness(self, _: Tensor, __: Tensor, chosen: Tensor, **___: Any) -> float:
        """Weigh a set by how near it is to the whole example."""
        distance = 1 - sqrt(int(chosen.sum()) / chosen.shape[1])
        return exp(-(distance**2) / (2 * self.width**2))
