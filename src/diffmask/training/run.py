"""The state of a fit between two steps: everything that must survive a kill, and nothing else."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor

from ..errors import StorageError
from ..gates.probe import Probe
from ..objective.objective import Objective
from ..provenance import versions
from ..settings import merge, to_dict
from ..storage import load_tensors, save_tensors
from ..tasks.task import Task
from .config import FitConfig
from .validate import DepthScore

KIND = "fit checkpoint"
HOW = {"cache", "cache_budget", "recompute", "compile"}  # settings that change how fast a fit is, and not what it finds
TIE = 0.002  # shares kept that differ by less count as the same


@dataclass
class Progress:
    """Where each depth is on its way; a depth that starts anew gets a way of its own."""

    began: list[int]
    ends: list[int]
    restarts: list[int]
    step: int = 0
    waited: int = 0  # validations since the last better probe
    best_cost: float | None = None
    best_divergence: float | None = None
    best_step: int | None = None
    history: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def fresh(cls, depth_count: int, steps: int) -> Progress:
        return cls([0] * depth_count, [steps] * depth_count, [0] * depth_count)

    def of(self, depth: int) -> float:
        """Return how far a depth has come, from 0 to 1."""
        began, end = self.began[depth], self.ends[depth]
        return min(1.0, (self.step - began) / (end - began))

    def unfinished(self) -> list[int]:
        return [depth for depth, end in enumerate(self.ends) if self.step < end]

    def start_anew(self, depth: int, steps: int) -> None:
        """Give a depth that got stuck a whole training again."""
        self.restarts[depth] += 1
        self.began[depth], self.ends[depth] = self.step, self.step + steps
        self.waited = 0


@dataclass
class Run:
    """A fit under way."""

    config: FitConfig
    probe: Probe
    objective: Objective
    optimizer: torch.optim.Optimizer
    progress: Progress
    fingerprint: str
    data: str
    best: dict[str, Tensor] = field(default_factory=dict)

    def settled(self, depth: int) -> bool:
        """Say whether a depth has met the constraint itself, no longer one that is being tightened."""
        return self.progress.of(depth) >= max(self.config.objective.tighten, 0.1)

    @property
    def compared(self) -> bool:
        """Whether the probe was validated as it is now."""
        history = self.progress.history
        return bool(history) and history[-1]["step"] == self.progress.step

    def compare(self, scores: list[DepthScore]) -> None:
        """Remember this probe if it is the sparsest so far whose thresholded masks hold at every depth."""
        now = self.progress
        if not self.compared:
            now.history.append(self._history_row(scores))
        if not all(self.settled(score.depth) for score in scores):
            return
        config = self.config.objective
        cost, divergence = mean(s.cost(config) for s in scores), mean(s.divergence for s in scores)
        if not all(score.feasible(config) for score in scores) or not self._better(cost, divergence):
            now.waited += bool(self.best)
            return
        now.best_cost, now.best_divergence, now.best_step, now.waited = cost, divergence, now.step, 0
        self.best = {name: tensor.detach().clone() for name, tensor in self.probe.state_dict().items()}

    def _better(self, cost: float, divergence: float) -> bool:
        """Prefer the sparser probe, and of two that keep practically the same the one that changes less."""
        best, least = self.progress.best_cost, self.progress.best_divergence
        if best is None or least is None or cost < best - TIE:
            return True
        return cost < best + TIE and divergence < least

    def _history_row(self, scores: list[DepthScore]) -> dict[str, Any]:
        return {
            "step": self.progress.step,
            "kept": [score.kept for score in scores],
            "divergence": [score.divergence for score in scores],
            "multiplier": self.objective.dual.multiplier.tolist(),
        }

    def save(self, path: Path) -> None:
        """Write everything the next step depends on."""
        groups = {"probe": self.probe.state_dict(), "objective": self.objective.state_dict(), "best": self.best}
        tensors = {f"{group}/{name}": t for group, named in groups.items() for name, t in named.items()}
        for number, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer/{number}/{name}": t for name, t in state.items()}
        info = {
            **self._belongs_to(),
            "settings": to_dict(self.config),
            "progress": asdict(self.progress),
            "versions": versions(),
        }
        save_tensors(path, KIND, tensors, info)

    def load(self, path: Path) -> None:
        """Go on where `path` left off, if it is the same fit."""
        tensors, info = load_tensors(path, KIND)
        self._check_same_fit(path, info)
        self.probe.load_state_dict(_group(tensors, "probe"))
        self.objective.load_state_dict(_group(tensors, "objective"))
        device = next(self.probe.parameters()).device
        self.best = {name: tensor.to(device) for name, tensor in _group(tensors, "best").items()}
        self.optimizer.load_state_dict(self._optimizer_state(_group(tensors, "optimizer")))
        self.progress = Progress(**info["progress"])

    def _optimizer_state(self, tensors: dict[str, Tensor]) -> dict[str, Any]:
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            number, _, key = name.partition("/")
            state.setdefault(int(number), {})[key] = tensor
        return {"state": state, "param_groups": self.optimizer.state_dict()["param_groups"]}

    def _belongs_to(self) -> dict[str, Any]:
        return {"fingerprint": self.fingerprint, "data": self.data, "sites": list(self.probe.site_names)}

    def _check_same_fit(self, path: Path, info: dict[str, Any]) -> None:
        """Refuse to go on from a checkpoint of another model, other data, other sites or other settings."""
        names = {"fingerprint": "another model", "data": "other data", "sites": "other sites"}
        for key, mine in self._belongs_to().items():
            if info[key] != mine:
                raise StorageError(
                    f"{path} belongs to {names[key]} ({key} {info[key]}, this fit has {mine}): "
                    "go on with what it was made with, or fit into another directory"
                )
        settings = to_dict(self.config)
        usual = to_dict(FitConfig())  # a file from before a setting was there had what is usual now
        before = merge(usual, info["settings"])
        changed = [name for name in settings if name not in HOW and before[name] != settings[name]]
        if changed:
            raise StorageError(
                f"{path} was made with other settings ({', '.join(changed)} differ): resume with the same settings, "
                "fit into another directory, or remove it to begin anew"
            )


def data_mark(task: Task) -> str:
    """Return what tells one data set from another: its sizes and its first examples."""
    batch = task.collate(task.train[:8])
    digest = hashlib.sha256(str(batch.valid.tolist()).encode())
    for name, value in sorted(batch.inputs.items()):
        digest.update(f"{name} {value.tolist() if isinstance(value, Tensor) else value}".encode())
    return f"{len(task.train)}+{len(task.validation)} {digest.hexdigest()[:12]}"


def _group(tensors: dict[str, Tensor], group: str) -> dict[str, Tensor]:
    return {name.removeprefix(f"{group}/"): t for name, t in tensors.items() if name.startswith(f"{group}/")}
