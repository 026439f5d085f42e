"""Save a fitted ranking and load it beside its model: only the rankers and their baselines are written."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from ..gates.probe import make_probe
from ..models.adapter import Adapter
from ..provenance import versions
from ..settings import from_dict, to_dict
from ..storage import load_tensors, save_tensors
from ..tasks.task import Task
from .budget import BudgetConfig, BudgetFit, BudgetScore
from .saved import check_belongs

KIND = "ranking"


def save_budget(fitted: BudgetFit, path: str | Path) -> None:
    """Write the rankers, their settings, their scores and the fingerprint of their model."""
    info = {
        "fingerprint": fitted.fingerprint,
        "sites": fitted.probe.site_names,
        "widths": fitted.probe.widths,
        "read_widths": fitted.probe.read_widths,
        "ask": getattr(fitted.task, "ask", None),
        "settings": to_dict(fitted.config),
        "scores": [asdict(score) for score in fitted.scores],
        "versions": versions(),
    }
    save_tensors(path, KIND, fitted.probe.state_dict(), info)


def load_budget(path: str | Path, model: Adapter, task: Task) -> BudgetFit:
    """Read a ranking back, refusing one that was fitted on another model or other sites."""
    tensors, info = load_tensors(path, KIND)
    check_belongs(path, info, model, task)
    config = from_dict(BudgetConfig, info["settings"], str(path))
    probe = make_probe(info["sites"], info["widths"], config.probe, info["read_widths"])
    probe.load_state_dict(tensors)
    scores = [BudgetScore(**score) for score in info["scores"]]
    return BudgetFit(model, task, probe.to(model.device), config, scores, info["fingerprint"])
