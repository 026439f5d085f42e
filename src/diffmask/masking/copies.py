"""Run one example with many masks at a time, computing what comes before its site once."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from ..models.adapter import Adapter
from ..models.sites import capture
from ..types import Batch
from .mask import run_masked


class Copies:
    """`count` copies of one example, ready to be run with a set of kept units each."""

    def __init__(
        self, model: Adapter, batch: Batch, row: int, site_name: str, baseline: Tensor | None, count: int
    ) -> None:
        self.model, self.site_name, self.baseline, self.count = model, site_name, baseline, count
        self.batch = batch.example(row).repeat(count)
        with torch.no_grad(), capture(self._sites_before(batch.example(row))) as self.states:
            self.original: Any = model(self.batch)

    def run(self, sets: Bool[Tensor, "set unit"]) -> Any:
        """Return the model's output for the sets, and for the last copies without one: the example as it is."""
        keep = self.batch.valid.clone()
        keep[: len(sets)] = sets
        return run_masked(self.model, self.batch, self.states, self.site_name, keep, self.baseline)

    def _sites_before(self, alone: Batch) -> list[Any]:
        """List what has to be remembered to go on after the site; of a long example's later states, nothing."""
        with torch.no_grad(), capture([*self.model.passed, *self.model.sites]) as states:
            self.model(alone)
        states.check_single(self.model.sites)
        return states.up_to(self.model.sites[self.site_name])
