"""KernelSHAP: the Shapley value of each unit in the game of keeping the target, found by a weighted regression.

Lundberg and Lee (2017). A unit's Shapley value is what it adds to the target, averaged over every order in which the
units may come in; the values of an example add up to what all of its units change together. Captum does the sampling.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import comb
from typing import Annotated, Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError
from ..objective.captum_engine import captum_methods
from ..training.surrogate import LinearFit, ValueOf, unit_weights
from .method import Method, Question

log = logging.getLogger(__name__)

CERTAIN = 1e6  # for infinity, the weight of the empty and the full set, whose values have to be met


@dataclass(frozen=True)
class KernelShap(Method):
    """The size of a unit's Shapley value: exact where every set of units is tried, else from sets drawn at random."""

    samples: Annotated[int, "sets of units per example; all there are, each once, if they are no more than this"] = 200
    batch_size: Annotated[int, "sets in one forward pass"] = 64
    seed: Annotated[int, "of the draws"] = 0

    def __post_init__(self) -> None:
        for name, value, least in (("samples", self.samples, 2), ("batch_size", self.batch_size, 1)):
            if value < least:
                raise SettingError(f"{name} of kernel-shap must be at least {least}, got {value}")

    def __call__(self, question: Question) -> Float[Tensor, "batch unit"]:
        return self.signed(question).abs()

    def signed(self, question: Question) -> Float[Tensor, "batch unit"]:
        """Return what each unit adds to the target, or takes from it."""
        q = question
        return unit_weights(q.model, q.task, q.batch, q.site_name, q.baseline, self._explain, self.seed)

    def _explain(self, value_of: ValueOf, unit_count: int) -> Float[Tensor, " unit"]:
        engine = captum_methods().KernelShap(value_of)
        everything = torch.ones(1, unit_count)
        if unit_count == 1:  # no set is left to draw between the empty and the full one
            return value_of(everything) - value_of(0 * everything)
        engine.interpretable_model, samples = LinearFit(), self.samples
        if 2**unit_count <= samples:
            sets, samples = every_set(unit_count), 2**unit_count
            engine.perturb_func, engine.similarity_func = lambda *_, **__: next(sets), shapley_kernel
        elif samples < unit_count + 2:
            log.warning("kernel-shap draws %d sets for %d units, too few to tell them apart", samples, unit_count)
        how = {"n_samples": samples, "perturbations_per_eval": self.batch_size, "return_input_shape": False}
        return engine.attribute(everything, **how)


def every_set(unit_count: int) -> Iterator[Tensor]:
    """Return every set of units once, where Captum would draw."""
    return (torch.tensor([chosen]) for chosen in product((0, 1), repeat=unit_count))


def shapley_kernel(_: Tensor, __: Tensor, chosen: Tensor, **___: Any) -> float:
    """Weigh a set of k of n units by (n − 1) / (C(n, k)·k·(n − k))."""
    count, size = chosen.shape[1], int(chosen.sum())
    return CERTAIN if size in (0, count) else (count - 1) / (comb(count, size) * size * (count - size))
