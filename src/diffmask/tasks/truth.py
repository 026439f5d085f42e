"""The right explanation, where it is known: which units matter, and which sets of them are enough.

The two differ where a model has a choice. Of two copies of a fact both matter, since each would be missed without the
other, and each alone is enough. Scores are compared with `relevant`; sets of kept units with `sufficient`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from jaxtyping import Bool
from torch import Tensor

Units = frozenset[int]


@dataclass(frozen=True)
class Truth:
    """What is known of a batch.

    `relevant` marks the units that matter: with some others kept and the rest gone, the prediction depends on them.
    Average precision, D_KL and D_JS to the truth and the exact match of sets use it. `sufficient` lists, for each
    example, the minimal sets that keep the prediction when all else is gone: none of their own subsets does. Whether
    the units ranked first are enough is asked of them.
    """

    relevant: Bool[Tensor, "batch unit"]
    sufficient: Sequence[Sequence[Units]]


def minimal_sets(units: Iterable[int], holds: Callable[[Units], bool]) -> list[Units]:
    """Return the sets of `units` for which something holds and for none of whose own subsets it does.

    >>> minimal_sets([0, 1, 2], lambda kept: len(kept & {0, 2}) > 0)
    [frozenset({0}), frozenset({2})]
    """
    units, found = list(units), list[Units]()
    for size in range(len(units) + 1):
        for chosen in map(frozenset, combinations(units, size)):
            if not any(smaller <= chosen for smaller in found) and holds(chosen):
                found.append(chosen)
    return found
