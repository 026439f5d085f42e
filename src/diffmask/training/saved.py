"""Save a fitted probe and load it beside its model: only the probe is written, never the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from ..errors import StorageError
from ..gates.probe import Probe, make_probe
from ..models.adapter import Adapter
from ..models.configuration import configuration_of, differences
from ..models.fingerprint import vocabulary_of
from ..models.pretrained import labels_of
from ..provenance import versions
from ..settings import from_dict, to_dict
from ..storage import load_tensors, save_tensors
from ..tasks.task import Task
from .config import FitConfig
from .fit import Fit, check_labels
from .validate import DepthScore

KIND = "probe"
READS = {"ask": None, "around": 0}  # settings of a task that say what gates read, and what tasks without them do
BLOWN_UP = 1e6  # the largest scale of earlier fits, that of a spread of 0


def save_fit(fitted: Fit, path: str | Path) -> None:
    """Write the probe, its settings, its scores and the fingerprint of its model."""
    info = {**about(fitted), "restarts": fitted.restarts, "history": fitted.history}
    save_tensors(path, KIND, fitted.probe.state_dict(), info)


def load_fit(path: str | Path, model: Adapter, task: Task) -> Fit:
    """Read a probe back, refusing one that was fitted on another model or other sites, and labels that misname."""
    info, config, probe = load_probe(path, KIND, FitConfig, model, task)
    check_labels(getattr(task, "labels", None), labels_of(model.model))
    if (positions := model.positions) is not None:
        task.limit(positions)
    scores = [DepthScore(**score) for score in info["scores"]]
    return Fit(model, task, probe, config, scores, info["restarts"], info["history"], info["fingerprint"])


def about(fitted: Any) -> dict[str, Any]:
    """Describe a fit or a ranking: what it belongs to, what it reads, how it was made and how good it is."""
    return {
        "fingerprint": fitted.fingerprint,
        "configuration": configuration_of(fitted.model.model),
        "vocabulary": vocabulary_of(getattr(fitted.task, "tokenizer", None)),
        "sites": fitted.probe.site_names,
        "widths": fitted.probe.widths,
        "read_widths": fitted.probe.read_widths,
        **{name: getattr(fitted.task, name, usual) for name, usual in READS.items()},
        "settings": to_dict(fitted.config),
        "scores": [asdict(score) for score in fitted.scores],
        "versions": versions(),
    }


def load_probe(
    path: str | Path, kind: str, settings: type[Any], model: Adapter, task: Task
) -> tuple[dict[str, Any], Any, Probe]:
    """Read a probe of some kind back with its description and settings, onto the device of its model."""
    tensors, info = load_tensors(path, kind)
    check_belongs(path, info, model, task)
    config = from_dict(settings, info["settings"], str(path))
    probe = make_probe(info["sites"], info["widths"], config.probe, info["read_widths"])
    probe.load_state_dict({name: _healed(name, tensor) for name, tensor in tensors.items()})
    return info, config, probe.to(model.device)


def _healed(name: str, tensor: Tensor) -> Tensor:
    """Leave out what never varied, as fits do now; those of before multiplied it, and its rounding, by `BLOWN_UP`."""
    return tensor.masked_fill(tensor == BLOWN_UP, 0) if name.endswith(".scale") else tensor


def check_belongs(path: str | Path, info: Mapping[str, Any], model: Adapter, task: Task) -> None:
    """Refuse what was fitted on another model or tokenizer, other sites, or a task whose gates read other states."""
    if info["fingerprint"] != model.fingerprint:
        raise StorageError(
            f"{path} was fitted on another model (fingerprint {info['fingerprint']}, this one has "
            f"{model.fingerprint}): load that model, or fit a probe for this one"
        )
    _check_configuration(path, info.get("configuration", {}), configuration_of(model.model))
    _check_vocabulary(path, info.get("vocabulary"), getattr(task, "tokenizer", None))
    if tuple(info["sites"]) != model.sites.names:
        raise StorageError(
            f"{path} reads the sites {info['sites']}, this model has {list(model.sites.names)}: adapt the model with "
            "those, adapt(model, sites=[…])"
        )
    for name, usual in READS.items():
        fitted, given = info.get(name, usual), getattr(task, name, usual)
        if fitted != given:
            raise StorageError(
                f"{path} was fitted to a task with {name}={fitted!r}, so its gates read other states than with "
                f"{name}={given!r}: make the task with the same"
            )


def _check_configuration(path: str | Path, saved: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Refuse a model that computes something else with the same weights."""
    if differs := differences(saved, own):
        what = ", ".join(f"{name} was {saved[name]}, is {own[name]}" for name in differs[:3])
        raise StorageError(
            f"{path} was fitted on these weights in another configuration ({what}): load the model with the "
            "configuration it was saved with, or fit a probe for this one"
        )


def _check_vocabulary(path: str | Path, saved: str | None, tokenizer: Any) -> None:
    """Refuse a tokenizer that numbers its tokens otherwise; what was saved before this was noted is taken as it is."""
    own = None if saved is None else vocabulary_of(tokenizer)
    if own is not None and own != saved:
        raise StorageError(
            f"{path} was fitted with a tokenizer of another vocabulary (hash {saved}, this one has {own}): load the "
            "tokenizer that was saved with the model, or fit a probe with this one"
        )
