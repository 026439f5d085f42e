"""The state of a fit between two steps: everything that must survive a kill, and nothing else."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from statistics import mean
from typing import Any

import torch
from torch import Tensor

from ..errors import StorageError
from ..gates.probe import Probe
from ..objective.objective import Objective
from ..provenance import versions
from ..settings import to_dict
from ..storage import load_tensors, save_tensors
from .config import FitConfig
from .validate import DepthScore

KIND = "fit checkpoint"
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


@dataclass
class Run:
    """A fit under way."""

    config: FitConfig
    probe: Probe
    objective: Objective
    optimizer: torch.optim.Optimizer
    progress: Progress
    fingerprint: str
    best: dict[str, Tensor] = field(default_factory=dict)

    def keep_if_better(self, scores: list[DepthScore]) -> bool:
        """Remember this probe if it is the sparsest so far whose thresholded masks hold at every depth."""
        config = self.config.objective
        settled = all(self.progress.of(d) >= config.tighten for d in range(self.probe.depth_count))
        if not settled or not all(score.feasible(config) for score in scores):
            return False
        cost, divergence = mean(s.cost(config) for s in scores), mean(s.divergence for s in scores)
        if not self._better(cost, divergence):
            return False
        now = self.progress
        now.best_cost, now.best_divergence, now.best_step = cost, divergence, now.step
        self.best = {name: tensor.detach().clone() for name, tensor in self.probe.state_dict().items()}
        return True

    def _better(self, cost: float, divergence: float) -> bool:
        """Prefer the sparser probe, and of two that keep practically the same the one that changes less."""
        best, least = self.progress.best_cost, self.progress.best_divergence
        if best is None or least is None or cost < best - TIE:
            return True
        return cost < best + TIE and divergence < least

    def save(self, path: str) -> None:
        """Write everything the next step depends on."""
        groups = {
            "probe": self.probe.state_dict(),
            "objective": self.objective.state_dict(),
            "best": self.best,
        }
        tensors = {f"{group}/{name}": t for group, named in groups.items() for name, t in named.items()}
        for number, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer/{number}/{name}": t for name, t in state.items()}
        info = {
            "fingerprint": self.fingerprint,
            "sites": self.probe.site_names,
            "settings": to_dict(self.config),
            "progress": asdict(self.progress),
            "versions": versions(),
        }
        save_tensors(path, KIND, tensors, info)

    def load(self, path: str) -> None:
        """Go on where `path` left off, if it is the same fit."""
        tensors, info = load_tensors(path, KIND)
        check_same_fit(path, info, self)
        self.probe.load_state_dict(_group(tensors, "probe"))
        self.objective.load_state_dict(_group(tensors, "objective"))
        self.best = _group(tensors, "best")
        self.optimizer.load_state_dict(self._optimizer_state(_group(tensors, "optimizer")))
        self.progress = Progress(**info["progress"])

    def _optimizer_state(self, tensors: dict[str, Tensor]) -> dict[str, Any]:
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            number, _, key = name.partition("/")
            state.setdefault(int(number), {})[key] = tensor
        return {"state": state, "param_groups": self.optimizer.state_dict()["param_groups"]}


def _group(tensors: dict[str, Tensor], group: str) -> dict[str, Tensor]:
    return {name.removeprefix(f"{group}/"): t for name, t in tensors.items() if name.startswith(f"{group}/")}


def check_same_fit(path: str, info: dict[str, Any], run: Run) -> None:
    """Refuse to go on from a checkpoint of another model, other sites or other settings."""
    if info["fingerprint"] != run.fingerprint:
        raise StorageError(
            f"{path} belongs to another model (fingerprint {info['fingerprint']}, this one has {run.fingerprint}): "
            "load the model it was fitted on, or fit into another directory"
        )
    if tuple(info["sites"]) != run.probe.site_names:
        raise StorageError(f"{path} was fitted on sites {info['sites']}, this model has {list(run.probe.site_names)}")
    mine = to_dict(run.config)
    changed = [name for name in mine if info["settings"].get(name) != mine[name]]
    if changed:
        raise StorageError(
            f"{path} was made with other settings ({', '.join(changed)} differ): resume with the same settings, "
            "or fit into another directory"
        )
