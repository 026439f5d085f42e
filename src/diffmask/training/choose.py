"""Turn a ranking into a keep set: of each depth, the units that score above one threshold.

`fit` learns which units to keep by the gradient of a mask, which says little where a model changes by jumps. A ranking
is learned from what the model does without units, and a threshold is all that is left to find: the highest at which the
divergence, on average over validation examples, is within the margin.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

from ..objective.objective import Objective, ObjectiveConfig
from .budget import BudgetFit
from .calibrate import calibrate
from .config import FitConfig
from .fit import Fit
from .validate import DepthScore, in_batches, validate


def choose(ranking: BudgetFit, margin: float = 0.1) -> Fit:
    """Find the thresholds; what comes out explains, verifies and is saved as any fit."""
    probe, model, task, c = deepcopy(ranking.probe), ranking.model, ranking.task, ranking.config
    objective = Objective(ObjectiveConfig(margin=margin), probe.depth_count).to(model.device)
    some = task.validation[: c.validation_limit]

    def scores() -> list[DepthScore]:
        return validate(model, task, probe, objective, in_batches(task, some, max(64, c.batch_size), model.device))

    with model.frozen():
        calibrate(probe, scores, margin, undecided=2 * c.probe.bound)
        found = scores()
    config = replace(FitConfig(), probe=c.probe, objective=objective.config, steps=c.steps, batch_size=c.batch_size)
    return Fit(model, task, probe, config, found, [], [], ranking.fingerprint)
