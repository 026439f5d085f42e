"""The settings of a fit, and the recipes that set them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import torch

from ..errors import SettingError, UnknownNameError
from ..gates.baseline import BaselineConfig
from ..gates.probe import ProbeConfig
from ..objective.lagrangian import PublishedConfig
from ..objective.objective import ObjectiveConfig
from ..objective.worth import ComparisonConfig
from ..registry import unknown
from ..settings import change, check_choices
from .optimizer import OPTIMIZERS


@dataclass(frozen=True)
class FitConfig:
    """How a probe is found; `recipe` makes one from a name and a few changes."""

    probe: ProbeConfig = field(default_factory=ProbeConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    comparison: ComparisonConfig = field(default_factory=ComparisonConfig)
    steps: Annotated[int, "optimiser steps, shared by all depths"] = 2000
    batch_size: Annotated[int, "examples per step"] = 32
    depths_per_step: Annotated[int, "depths trained at every step, from one original pass; 0 takes all"] = 1
    optimizer: Annotated[str, "adam, lookahead-rmsprop or lookahead-adam"] = "adam"
    learning_rate: Annotated[float, "of the gates"] = 3e-3
    weight_decay: Annotated[float, "of the gates' weights"] = 0.0
    warmup: Annotated[int, "steps over which the learning rate rises"] = 0
    decay: Annotated[float, "share of the training, at its end, over which the learning rate falls to 0"] = 0.5
    seed: Annotated[int, "every draw depends on it and on the step alone"] = 0
    validate_every: Annotated[int, "steps between validations; 0 makes 20 of them, or 4 where they decide nothing"] = 0
    validation_limit: Annotated[int, "most examples used in a validation"] = 1024
    patience: Annotated[int, "stop after this many validations without a better probe; 0 never stops"] = 0
    guard: Annotated[bool, "watch for depths whose gates are stuck"] = True
    restarts: Annotated[int, "how often such a depth may start anew"] = 2
    select: Annotated[bool, "return the sparsest feasible probe seen, not the last"] = True
    calibrate: Annotated[bool, "at the end, shift each depth's votes until its thresholded masks just hold"] = False
    undecided: Annotated[float, "with calibrate: units up to these log-odds may be dropped if there is room"] = 0.0
    checkpoint_every: Annotated[int, "steps between checkpoints; 0 takes validate_every, or writes 20 of them"] = 0
    cache: Annotated[
        Literal["off", "memory", "disk"], "where the original pass of each training example is remembered"
    ] = "off"
    cache_budget: Annotated[int, "most bytes it may take; beyond, only predictions are remembered"] = 4 << 30
    precision: Annotated[
        Literal["as loaded", "bf16"], "what the frozen model computes in; gates always compute in float32"
    ] = "as loaded"
    recompute: Annotated[bool, "keep no activations inside blocks, and compute them twice: for large models"] = False
    compile: Annotated[bool, "compile the blocks of the model: slow to start, and faster on a GPU"] = False

    def __post_init__(self) -> None:
        check_choices(self, "fit")
        for name in ("steps", "batch_size", "learning_rate", "validation_limit", "cache_budget"):
            if not 0 < getattr(self, name) < math.inf:
                raise SettingError(f"{name} must be positive and finite, got {getattr(self, name)}")
        for name in ("depths_per_step", "warmup", "validate_every", "checkpoint_every", "patience", "restarts"):
            if getattr(self, name) < 0:
                raise SettingError(f"{name} must be 0 or more, got {getattr(self, name)}")
        if self.calibrate and self.objective.form == "rate":
            raise SettingError("calibrate shifts votes until a margin just holds: use it with form = margin")
        if self.probe.members > 1 and self.objective.form == "rate":
            raise SettingError("the votes of several members are cut at a margin: use members = 1, or form = margin")
        if self.probe.voter == "ranker" and (self.guard or not self.calibrate):
            raise SettingError("rankers learn an order, and the margin cuts it at the end: use guard off, calibrate on")
        if self.undecided < 0:
            raise SettingError(f"undecided must be 0 or more, got {self.undecided}: it is the log-odds of a unit")
        if not 0 <= self.decay <= 1:
            raise SettingError(f"decay must lie in [0, 1], got {self.decay}: it is a share of the training")
        OPTIMIZERS.get(self.optimizer)

    @property
    def dtype(self) -> torch.dtype | None:
        """What the frozen model computes in; None leaves it as it was loaded."""
        return torch.bfloat16 if self.precision == "bf16" else None

    @property
    def validation_steps(self) -> int:
        """A validation costs as much as several steps: where it decides nothing, there are few to look at."""
        decides = self.guard or self.select or self.patience > 0
        return self.validate_every or max(1, self.steps // (20 if decides else 4))

    @property
    def checkpoint_steps(self) -> int:
        return self.checkpoint_every or self.validate_every or max(1, self.steps // 20)


# De Cao et al. (2020) as their notebook runs it, with one pass per batch instead of two.
PUBLISHED = FitConfig(
    probe=ProbeConfig(
        voter="published",
        votes="coupled",
        temperature=0.2,
        low=-0.2,
        high=1.0,
        baseline=BaselineConfig(start="mean", hold=0.0, learning_rate=1e-3 / 3e-4, scaled=False),
    ),
    objective=ObjectiveConfig(margin=0.05, sparsity="log-open", dual="published", tighten=0.0),
    steps=7000,
    batch_size=128,
    optimizer="lookahead-rmsprop",
    learning_rate=3e-4,
    warmup=200,
    decay=0.0,
    guard=False,
    select=False,
)

# For text: hundreds of features per state, where a nearly linear start is enough; states that carry
# their position; importance that is graded, so that the margin binds and thresholded masks are calibrated to it.
TEXT = FitConfig(
    probe=ProbeConfig(hidden=256, spread=1.0, baseline=BaselineConfig(positions=512)),
    objective=ObjectiveConfig(margin=0.1, smooth=0.01),
    steps=2000,
    depths_per_step=0,
    learning_rate=2e-3,
    weight_decay=0.1,
    guard=False,
    select=False,
    calibrate=True,
)

# Rankers learn what each unit is worth by comparing sets of units, and one threshold per depth, found at the end, makes
# the sets that hold the margin. The model is only run forward; removed units become a baseline fitted to random masks.
RANKING = FitConfig(
    probe=ProbeConfig(
        voter="ranker", votes="separate", hidden=64, baseline=BaselineConfig(learned=False, positions=512)
    ),
    objective=ObjectiveConfig(margin=0.1),
    steps=2000,
    depths_per_step=0,
    learning_rate=1e-3,
    weight_decay=0.02,
    warmup=50,
    guard=False,
    select=False,
    calibrate=True,
    undecided=2 * ProbeConfig().bound,
)

# For images: states as wide as text's; at the input, position is not yet in the state and the baseline needs none.
# `start_open` is the share kept at first, at every depth. From a start that is half closed the constraint is tightened
# from what forbids dropping everything; a price on large logits keeps gates that open first from saturating. The
# baseline moves from the first step: fitted to random masks it may stand for half of a thing that is counted, and
# while it does no patch can go.
VISION = FitConfig(
    probe=ProbeConfig(hidden=256, spread=1.0, baseline=BaselineConfig(hold=0.0)),
    objective=ObjectiveConfig(margin=0.1, smooth=0.003, loosest=0.25),
    steps=2000,
    learning_rate=2e-3,
    calibrate=True,
)

# Nalmpantis et al. (2023) as their code has it for CIFAR-10, with one pass per batch instead of two, [CLS] neither
# gated nor counted, the input state read once at depth 0, and λ moved the right way; `sign="descent"` is as released.
PUBLISHED_VISION = FitConfig(
    probe=ProbeConfig(
        voter="published-vision",
        stretch=15.0,
        offset=8.0,
        votes="coupled",
        temperature=0.2,
        low=-0.2,
        high=1.0,
        baseline=BaselineConfig(start="noise", hold=0.0, learning_rate=1e-3 / 2e-5, scaled=False),
    ),
    objective=ObjectiveConfig(
        margin=0.1, sparsity="log-open", dual="published", published=PublishedConfig("adam", 20.0), tighten=0.0
    ),
    steps=70_312,  # 25 epochs of 45,000 images
    batch_size=16,
    optimizer="lookahead-adam",
    learning_rate=2e-5,
    warmup=1200,
    decay=0.0,
    guard=False,
    select=False,
)

RECIPES = {
    "default": FitConfig(),
    "text": TEXT,
    "vision": VISION,
    "ranking": RANKING,
    "published": PUBLISHED,
    "published-vision": PUBLISHED_VISION,
}


def recipe(name: str = "default", **changes: Any) -> FitConfig:
    """Return a recipe's settings with some of them changed, wherever they are: in the fit, its probe or its objective.

    >>> recipe("published", kind="hidden", margin=0.1, steps=500).objective.margin
    0.1
    """
    if name not in RECIPES:
        raise UnknownNameError(unknown("recipe", name, RECIPES))
    return change(RECIPES[name], changes)
