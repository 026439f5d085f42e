"""How much of the original prediction is left after a removal: one number per example, and higher is always more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from ..attribution.method import Question
from ..errors import SettingError
from ..objective.divergence import agreement, divergence
from ..objective.target import target
from ..registry import unknown
from ..types import Prediction, Value

Figure = Literal["probability", "log-probability", "negative-kl", "agreement"]


def check_figure(figure: str) -> None:
    """Refuse a figure that nobody knows."""
    if figure not in get_args(Figure):
        raise SettingError(unknown("figure", figure, get_args(Figure)))


@torch.no_grad()
def predict(question: Question) -> Prediction:
    """Predict from the whole input."""
    with question.model.frozen():
        return question.task.read(question.model(question.batch), question.batch)


def left_of(original: Prediction, masked: Sequence[Prediction], figure: Figure) -> Float[Tensor, "copy batch"]:
    """Say what each of several masks leaves of the original prediction."""
    return torch.stack([left(original, prediction, figure) for prediction in masked])


def left(original: Prediction, masked: Prediction, figure: Figure) -> Float[Tensor, " batch"]:
    """Say what is left of the original prediction.

    `probability` and `log-probability` are of what the model decided originally, all heads and positions together;
    `negative-kl` is of the whole distributions (minus the squared error for a value); `agreement` is the share of
    decisions that stayed.
    """
    if figure == "negative-kl":
        return -divergence(original, masked).clamp_min(0)  # rounding takes a divergence of nothing just below 0
    _check_decides(original, figure)
    if figure == "agreement":
        return agreement(original, masked)
    chosen = target(masked, original)
    return chosen.exp() if figure == "probability" else chosen


def _check_decides(original: Prediction, figure: str) -> None:
    for name, head in original.items():
        if isinstance(head, Value):
            raise SettingError(
                f"figure '{figure}' asks what became of a decision, and the output '{name}' is a value: use figure "
                "'negative-kl', which is minus the squared error there"
            )
