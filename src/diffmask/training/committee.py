"""Fit several probes from seeds of their own and let them decide together.

Where a model can do without either of two units, which one a probe keeps is chance, and another seed keeps the other.
The mean of several probes says of both that they may be needed: seeds then agree, and explaining costs no pass more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..gates.committee import merge_probes
from ..models.adapter import Adapter
from ..settings import change
from ..tasks.task import Task
from .choose import choose
from .config import FitConfig
from .fit import MEMBER, Fit, fit_alone
from .processes import accelerate


def fit_committee(model: Adapter, task: Task, config: FitConfig, directory: Path | None, progress: bool) -> Fit:
    """Fit every member, and let all decide together."""
    fits = []
    with model.on(accelerate().device):
        for number in range(config.probe.members):
            place = None if directory is None else directory / f"{MEMBER}{number}"
            fits.append(fit_alone(model, task, _member(config, number), place, progress))
        fitted = together(fits, config)
    fitted.probe.to(model.device)
    return fitted


def together(fits: Sequence[Fit], config: FitConfig) -> Fit:
    """Return the fit whose probe averages those of `fits`, cut at the margin anew: nothing has trained their mean."""
    merged = replace(
        fits[0],
        probe=merge_probes([member.probe for member in fits]),
        config=config,
        restarts=[sum(each) for each in zip(*(member.restarts for member in fits), strict=True)],
        history=[{"member": number, **row} for number, member in enumerate(fits) for row in member.history],
    )
    return choose(merged, config.objective.margin)


def _member(config: FitConfig, number: int) -> FitConfig:
    """Return the settings of one member; committees of different seeds have no member in common.

    The margin cuts what members say together: cutting each alone would cost passes and change nothing.
    """
    return change(config, {"members": 1, "seed": config.seed * config.probe.members + number, "calibrate": False})
