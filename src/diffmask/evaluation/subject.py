"""What a comparison is about: a model with its data, asked about one site with one baseline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor

from ..attribution.method import Method, Question
from ..errors import DataError, SettingError
from ..explaining.explain import check_depth
from ..models.adapter import Adapter
from ..tasks.task import Task, check_several
from ..training.fit import Fit
from ..types import Batch
from .metric import Case
from .removal import Removal

Marks = Callable[[Batch, int], Bool[Tensor, "batch unit"]]  # which units of a batch, at a site


@dataclass(frozen=True)
class Subject:
    """The questions every method answers."""

    model: Adapter
    task: Task
    examples: Sequence[Any]
    site: int
    baseline: Float[Tensor, " *position hidden"] | None
    removal: Removal
    truth: Marks | None = None
    rationale: Marks | None = None
    reads: int | None = None  # up to which depth a probe reads

    def __post_init__(self) -> None:
        if not len(self.examples):
            raise DataError("a comparison needs at least one example, got none")

    def question(self, rows: Sequence[int]) -> Question:
        """Ask about some of the examples."""
        batch = self.task.collate([self.examples[row] for row in rows]).to(self.model.device)
        return Question(self.model, self.task, batch, self.site, self.baseline, self.reads)

    def case(self, method: Method, question: Question, scores: Float[Tensor, "batch unit"]) -> Case:
        """Put scores beside all that a metric may ask about them."""
        truth, rationale = (marks and marks(question.batch, self.site) for marks in (self.truth, self.rationale))
        return Case(question, method, scores, self.removal, truth, rationale)

    def describe(self) -> dict[str, Any]:
        """Say where and how the questions are asked."""
        question = self.question([0])
        return {
            "examples": len(self.examples),
            "site": question.site_name,
            "depth": self.site if self.reads is None else self.reads,
            "removal": self.removal.describe(question),
        }


def about_probe(
    fitted: Fit, data: Task | Sequence[Any], depth: int | str, baseline: Tensor | None, **more: Any
) -> Subject:
    """Ask where a fitted probe masks, with its baseline unless there is another."""
    chosen = check_depth(fitted.probe, depth)
    if baseline is None and (found := fitted.probe.baseline(chosen)) is not None:
        baseline = found.detach()
    task, examples = (data, data.validation) if isinstance(data, Task) else (fitted.task, data)
    check_several(examples)
    return Subject(fitted.model, task, examples, fitted.probe.site_index(chosen), baseline, reads=chosen, **more)


def about_model(
    model: Adapter, data: Task | Sequence[Any], depth: int | str, baseline: Tensor | None, **more: Any
) -> Subject:
    """Ask about a site of a model that has no probe."""
    if not isinstance(data, Task):
        raise SettingError(
            f"a model alone does not say how examples become a batch: pass a task as data, got {type(data).__name__}"
        )
    if (positions := model.positions) is not None:
        data.limit(positions)
    return Subject(model, data, data.validation, _site(model, depth), baseline, **more)


def _site(model: Adapter, depth: int | str) -> int:
    names = model.sites.names
    if isinstance(depth, str) and depth in names:
        return names.index(depth)
    if isinstance(depth, str) or not -len(names) <= depth < len(names):
        raise SettingError(f"no site {depth}: this model has {len(names)}, {', '.join(names)}")
    return depth % len(names)
