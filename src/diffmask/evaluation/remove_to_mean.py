"""A removed unit becomes the mean state of its site, which says only what every unit says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from jaxtyping import Float
from torch import Tensor

from ..attribution.method import Question
from ..types import Prediction
from .remembered import Remembered
from .removal import Removal, check_rows, run_at_site
from .site_statistics import SiteStatistics, check_examples, site_statistics


@dataclass(frozen=True)
class ToMean(Removal):
    """The mean over training examples of the task, at the question's site; looked for once per model and site."""

    name = "mean"
    examples: Annotated[int, "training examples, evenly spaced, whose states are averaged"] = 256
    rows: Annotated[int, "rows in one pass, one per mask and example; never fewer than the batch has"] = 256
    _seen: Remembered[SiteStatistics] = field(default_factory=Remembered, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_rows(self.name, self.rows)
        check_examples(self.name, self.examples)

    def describe(self, question: Question) -> str:
        return f"mean at {question.site_name}"

    def __call__(self, question: Question, keeps: Float[Tensor, "copy batch unit"]) -> list[Prediction]:
        mean = self._statistics(question).mean
        return run_at_site(question, keeps, self.rows, lambda seen: mean)

    def _statistics(self, question: Question) -> SiteStatistics:
        given = (question.task, question.site_name, str(question.batch.valid.device))
        return self._seen.get(question.model.model, given, lambda: site_statistics(question, self.examples))
