"""The tree of choices of a recurrent model: its state after some units depends only on what was kept of those.

Each unit is kept or dropped, so the state after the first k of them is one of 2^k, and each is shared by all the sets
that begin alike: the whole tree of 2^n sets costs 2^(n+1) cell steps, where running every set from its start costs
n·2^n. Asked for sets of one size, a state is left as soon as it holds too many units, or can no longer hold enough;
trying all sizes that way, one after the other, costs twice the whole tree at most. Nothing else is left out: a model
promises no order between the predictions of sets, so that no other bound would be sound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from .recurrence import Recurrence, State

HELD = {"cpu": 1 << 18, "cuda": 1 << 24}  # numbers of state worked on at a time: what fits a cache, what fills a GPU


@dataclass(frozen=True)
class Nodes:
    """Some prefixes of one length: the sets they have chosen so far as numbers, their sizes and their states."""

    step: int
    codes: Int[Tensor, " node"]
    sizes: Int[Tensor, " node"]
    state: State

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, which: slice) -> Nodes:
        state = tuple(tuple(tensor[which] for tensor in part) for part in self.state)
        return Nodes(self.step, self.codes[which], self.sizes[which], state)


class PrefixTree:
    """Every set of an example's units, walked depth first in large groups of prefixes.

    `kept` and `dropped` are what enters the recurrence at each step if the step's unit is kept, and if not. `units`
    says which unit a step belongs to, −1 if it is always kept; a unit may have several steps, anywhere.
    """

    def __init__(
        self,
        recurrence: Recurrence,
        kept: Float[Tensor, "step input"],
        dropped: Float[Tensor, "step input"],
        units: Sequence[int],
        unit_count: int,
    ) -> None:
        self.recurrence, self.units, self.unit_count = recurrence, list(units), unit_count
        self.kept, self.dropped = recurrence.given(kept), recurrence.given(dropped)
        self.device = self.kept.device
        held = HELD.get(self.device.type, HELD["cuda"])
        self.most_nodes = max(256, held // recurrence.width)
        seen = [set(self.units[:step]) for step in range(len(self.units))]
        self.opens = [unit >= 0 and unit not in seen[step] for step, unit in enumerate(self.units)]
        self.left = [sum(self.opens[step:]) for step in range(len(self.units) + 1)]  # units undecided before a step

    def leaves(self, least: int, most: int) -> Iterator[tuple[Int[Tensor, " set"], State]]:
        """Yield all sets of `least` to `most` units, some at a time, each with the state after the last step."""
        one = torch.zeros(1, dtype=torch.long, device=self.device)
        stack = [Nodes(0, one, one, self.recurrence.start(1))]
        while stack:
            nodes = stack.pop()
            if nodes.step == len(self.units):
                yield nodes.codes, nodes.state
            elif 2 * len(nodes) > self.most_nodes and len(nodes) > 1:
                middle = len(nodes) // 2
                stack += [self._grow(nodes.take(half), least, most) for half in (slice(middle), slice(middle, None))]
            else:
                stack.append(self._grow(nodes, least, most))

    def states(self, sets: Bool[Tensor, "set unit"]) -> State:
        """Return the states after the last step for some sets, each run from its start."""
        state = self.recurrence.start(len(sets))
        for step, unit in enumerate(self.units):
            given = self.kept[step] if unit < 0 else self._given(step, sets[:, unit])
            state = self.recurrence.step(given, self.recurrence.own(state), state)
        return state

    def _grow(self, nodes: Nodes, least: int, most: int) -> Nodes:
        """Take one step from each prefix: into both choices where a unit begins, as chosen before elsewhere."""
        step, own = nodes.step, self.recurrence.own(nodes.state)
        if not self.opens[step]:
            bits = (nodes.codes & self._bit(step)).bool() if self.units[step] >= 0 else None
            given = self.kept[step] if bits is None else self._given(step, bits)
            return Nodes(step + 1, nodes.codes, nodes.sizes, self.recurrence.step(given, own, nodes.state))
        # A prefix holds at least what it must to end with `least`, so that only these two choices can fail.
        decided, left = self.left[0] - self.left[step], self.left[step + 1]
        keep = nodes.sizes < most if decided >= most else None
        drop = nodes.sizes + left >= least if left < least else None
        return _join(
            self._choose(nodes, own, self.kept[step], keep, self._bit(step)),
            self._choose(nodes, own, self.dropped[step], drop, 0),
        )

    def _choose(self, nodes: Nodes, own: list[Tensor], given: Tensor, which: Tensor | None, bit: int) -> Nodes:
        codes, sizes, state = nodes.codes, nodes.sizes, nodes.state
        if which is not None:
            codes, sizes, own = codes[which], sizes[which], [tensor[which] for tensor in own]
            state = tuple(tuple(tensor[which] for tensor in part) for part in state)
        return Nodes(nodes.step + 1, codes + bit, sizes + (bit > 0), self.recurrence.step(given, own, state))

    def _given(self, step: int, kept: Bool[Tensor, " node"]) -> Float[Tensor, "node gate"]:
        return torch.where(kept.unsqueeze(1), self.kept[step], self.dropped[step])

    def _bit(self, step: int) -> int:
        return 1 << (self.unit_count - 1 - self.units[step])


def _join(first: Nodes, second: Nodes) -> Nodes:
    if len(first) == 0 or len(second) == 0:
        return first if len(first) else second
    state = tuple(
        tuple(torch.cat(pair) for pair in zip(*parts, strict=True))
        for parts in zip(first.state, second.state, strict=True)
    )
    codes, sizes = torch.cat([first.codes, second.codes]), torch.cat([first.sizes, second.sizes])
    return Nodes(first.step, codes, sizes, state)
