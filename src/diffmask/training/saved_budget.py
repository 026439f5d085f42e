"""Save a fitted ranking and load it beside its model: only the rankers and their baselines are written."""

from __future__ import annotations

from pathlib import Path

from ..models.adapter import Adapter
from ..storage import save_tensors
from ..tasks.task import Task
from .budget import BudgetConfig, BudgetFit
from .budget_score import BudgetScore
from .saved import about, load_probe

KIND = "ranking"


def save_budget(fitted: BudgetFit, path: str | Path) -> None:
    """Write the rankers, their settings, their scores and the fingerprint of their model."""
    save_tensors(path, KIND, fitted.probe.state_dict(), about(fitted))


def load_budget(path: str | Path, model: Adapter, task: Task) -> BudgetFit:
    """Read a ranking back, refusing one that was fitted on another model or other sites."""
    info, config, probe = load_probe(path, KIND, BudgetConfig, model, task)
    scores = [BudgetScore(**score) for score in info["scores"]]
    return BudgetFit(model, task, probe, config, scores, info["fingerprint"])
