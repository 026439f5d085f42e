"""What a metric is: a call from scores, and the question they answer, to one figure per example."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from jaxtyping import Bool, Float
from torch import Tensor

from ..attribution.method import Method, Question
from ..errors import ModelError
from .removal import Removal

Marked = Literal["truth", "rationale"]  # the units that matter, or those a person marked


@dataclass(frozen=True)
class Case:
    """Scores to be judged, with all that a metric may ask about them."""

    question: Question
    method: Method  # made the scores, and can be asked again about another model or another input
    scores: Float[Tensor, "batch unit"]
    removal: Removal  # what becomes of a unit that is taken away
    truth: Bool[Tensor, "batch unit"] | None = None  # the units that matter, where that is known
    rationale: Bool[Tensor, "batch unit"] | None = None  # the units a person marked

    def __post_init__(self) -> None:
        wild = (~self.scores.isfinite() & self.question.batch.valid).any(1)
        if bool(wild.any()):  # a NaN would be ranked first, and kept by no threshold
            raise ModelError(
                f"the scores of method {type(self.method).__name__} are NaN or infinite for {int(wild.sum())} of "
                f"{len(wild)} examples, which no metric can judge: check the model on them, e.g. in float32"
            )


class Metric(ABC):
    """One figure per example; NaN where the metric is not defined for it, which is counted and never averaged in."""

    better: ClassVar[Literal["higher", "lower"]]
    uses_removal: ClassVar[bool] = True  # whether the figure depends on what replaces a removed unit

    @property
    def ranks_only(self) -> bool:
        """Whether only the order of the scores counts, so that no rescaling that keeps it changes the figure."""
        return False

    @property
    def needs(self) -> Marked | None:
        """Whose marks the figure is measured against; None where it asks for none."""
        return None

    @abstractmethod
    def __call__(self, case: Case) -> Float[Tensor, " batch"]:
        """Judge every example of the case."""
