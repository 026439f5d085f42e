"""Cut the order that a fit has learned at another margin: no training, a few validations."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

from ..errors import DataError
from ..objective.objective import Objective
from ..settings import change
from .calibrate import calibrate
from .fit import Fit
from .validate import DepthScore, validate, validation_batches


def choose(fitted: Fit, margin: float) -> Fit:
    """Return a fit whose thresholded masks just hold `margin` on the validation examples; the given one stays.

    Rankers know the worth of every unit and can be cut anywhere; gates were trained for one margin, and beyond what was
    left `undecided` they can only open.
    """
    if not fitted.task.validation:
        raise DataError(
            "choose measures on validation examples, and the task of this fit has none: give it one that has, "
            "choose(dataclasses.replace(fitted, task=task), margin)"
        )
    config = change(fitted.config, {"margin": margin})
    probe, model, task = deepcopy(fitted.probe), fitted.model, fitted.task
    objective = Objective(config.objective, probe.depth_count).to(model.device)

    def scores() -> list[DepthScore]:
        batches = validation_batches(task, config.validation_limit, config.batch_size, model.device)
        return validate(model, task, probe, objective, batches)

    with model.frozen(), model.computing(config.dtype):
        calibrate(probe, scores, margin, config.undecided)
        found = scores()
    return replace(fitted, probe=probe, config=config, scores=found)
