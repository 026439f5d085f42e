"""An explainer is something to call: examples in, explanations out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..explanation import Explanation
from ..training.fit import Fit
from .certify import certify
from .explain import check_depth, explain
from .pretrained import from_pretrained
from .target import PREDICTED, Target, check_targets


@dataclass(frozen=True)
class Explainer:
    """A fitted probe as a function of examples.

    >>> import diffmask
    >>> explainer = diffmask.Explainer(diffmask.from_pretrained("embedded"))
    >>> explainer(["A fast, funny, highly enjoyable movie."], target="positive")[0].verified
    True

    `certified` adds units back until the margin was measured to hold. A `target` is what the model must predict: an
    index, a label's name, a span (start, end), a step, or "predicted", which is always right.
    """

    fitted: Fit
    depth: int | str = -1
    certified: bool = False
    batch_size: int = 64

    def __post_init__(self) -> None:
        check_depth(self.fitted.probe, self.depth)

    @classmethod
    def from_pretrained(cls, directory: str | Path, **settings: Any) -> Explainer:
        """Load a saved probe, with the settings of `diffmask.from_pretrained`, ready to be called."""
        return cls(from_pretrained(directory, **settings))

    def __call__(
        self, examples: Sequence[Any], target: Target | Sequence[Target] = PREDICTED, *, verify: bool = True
    ) -> list[Explanation]:
        """Explain each example; one target counts for all of them."""
        if self.certified:
            found = certify(self.fitted, examples, depth=self.depth, batch_size=self.batch_size)
        else:
            asked = verify or target != PREDICTED  # what was predicted is known from the verification
            found = explain(self.fitted, examples, depth=self.depth, verify=asked, batch_size=self.batch_size)
        check_targets(found, target)
        return found
