"""Run a model on from the last state of its recurrent layer, where its structure and a trial say that this is exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ..errors import SiteError
from ..models.sites import Site, answer, capture, trace
from ..types import Batch
from .copies import Copies
from .mask import run_masked
from .prefix_tree import PrefixTree
from .recurrence import State, read_recurrence
from .sets import MOST_UNITS

CELLS = nn.RNNCellBase


class LastState:
    """One example of a model whose answer hangs on the state that its recurrent layer ends with.

    That is only supposed here: whoever uses it compares `run(tree.states(sets), …)` with ordinary runs first.
    """

    def __init__(self, one: Copies, module: nn.Module, tree: PrefixTree) -> None:
        self.one, self.module, self.tree = one, module, tree

    def copies(self, count: int) -> Batch:
        """Return the example `count` times over, without taking memory for it."""

        def spread(tensor: Tensor) -> Tensor:
            return tensor.expand(count, *tensor.shape[1:]) if tensor.dim() and len(tensor) == 1 else tensor

        batch = self.one.batch
        inputs = {name: spread(value) if isinstance(value, Tensor) else value for name, value in batch.inputs.items()}
        others = (None if tensor is None else spread(tensor) for tensor in (batch.place, batch.ask))
        return Batch(inputs, spread(batch.valid), *others)

    def run(self, state: State, copies: Batch) -> Any:
        """Return the model's output for each last state."""
        with answer({**self._before(len(copies)), self.module: self._output(state, copies)}):
            return self.one.model(copies)

    def _before(self, count: int) -> dict[nn.Module, Tensor]:
        """Let what the site's module gives stand for all copies: nothing that is read comes from it any more."""
        site = self.one.model.sites[self.one.site_name]
        whole = self.one.states.outputs.get(site.name)
        if not isinstance(whole, Tensor) or site.calls > 1:
            return {}
        one = site.turned(whole)
        return {site.module: site.turned(one.expand(count, *one.shape[1:]))}

    def _output(self, state: State, copies: Batch) -> Any:
        """Return what the layer would: the last state, at every position, and the last of every layer."""
        parts = [[tensor.to(self.one.model.dtype) for tensor in part] for part in state]
        last = parts[-1][0]
        if isinstance(self.module, CELLS):
            return tuple(parts[-1]) if len(parts[-1]) > 1 else last
        count, steps = len(last), copies.shape[1]
        axis = 1 if self.module.batch_first else 0
        states = last.unsqueeze(axis).expand(*((count, steps) if axis else (steps, count)), -1)
        ends = tuple(torch.stack(layers) for layers in zip(*parts, strict=True))
        return states, ends if len(ends) > 1 else ends[0]


def last_states(one: Copies) -> list[LastState]:
    """Return the ways to see the model as one with a last state, the likeliest first; none for any other model."""
    modules = [m for m in one.model.model.modules() if isinstance(m, nn.RNNBase | CELLS)]
    recurrence = read_recurrence(modules[0]) if len(modules) == 1 else None
    valid = one.batch.valid[0]
    if recurrence is None or one.baseline is None or int(valid.sum()) > MOST_UNITS:
        return []
    entering = [_entering(one, modules[0], keep) for keep in (valid, torch.zeros_like(valid))]
    if any(inputs is None for inputs in entering):
        return []
    units, count = unit_of_positions(one.batch), int(valid.sum())
    kept, dropped = (inputs[: len(units)] for inputs in entering if inputs is not None)
    # The answer is read at the last real position, or after the padding too.
    stops = dict.fromkeys((_last_real(one.batch, units), len(units)))
    trees = [PrefixTree(recurrence, kept[:stop], dropped[:stop], units[:stop], count) for stop in stops]
    return [LastState(one, modules[0], tree) for tree in trees if len(kept) == len(units)]


def unit_of_positions(batch: Batch) -> list[int]:
    """Say of each position of the first example which of its real units it belongs to; −1: to none."""
    number = torch.where(batch.valid[0], batch.valid[0].long().cumsum(0) - 1, -1)
    if batch.place is None:
        return number.tolist()
    place = batch.place[0]
    return torch.where(place >= 0, number[place.clamp_min(0)], -1).tolist()


def _last_real(batch: Batch, units: list[int]) -> int:
    """Return how many positions there are up to the last one that is no padding."""
    real, last = batch.inputs.get("attention_mask"), max(place for place, unit in enumerate(units) if unit >= 0)
    if isinstance(real, Tensor) and real.shape == batch.shape:
        last = max(last, int(real[0].nonzero().max()))
    return last + 1


def _entering(one: Copies, module: nn.Module, keep: Bool[Tensor, " unit"]) -> Float[Tensor, "step input"] | None:
    """Return what enters the recurrent layer step by step, if tensors do and each once."""
    first = Site("recurrent input", module, "input")

    def run() -> None:
        run_masked(one.model, one.batch, one.states, one.site_name, keep.unsqueeze(0), one.baseline)

    calls = len(_trace(first, run))
    if calls == 0 or (calls > 1 and not isinstance(module, CELLS)):
        return None
    sites = [Site(f"step {call}", module, "input", call=call, calls=calls) for call in range(calls)]
    with capture(sites) as states:
        run()
    steps = [states[site.name] for site in sites]
    if isinstance(module, CELLS):
        return torch.cat(steps) if steps[0].dim() == 2 else None
    return steps[0].squeeze(0 if module.batch_first else 1) if steps[0].dim() == 3 else None


def _trace(site: Site, run: Callable[[], Any]) -> Sequence[Site]:
    """Return the visits to a site; none where something else than a tensor comes in, such as a packed sequence."""
    try:
        return trace([site], run)
    except SiteError:
        return []
