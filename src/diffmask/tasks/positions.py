"""A batch from the tensors a model takes, where no text is at hand from which a task could make one.

What stands at a position is then all that is known of it, so a unit is a position, and words cannot be told.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Bool
from torch import Tensor

from ..errors import DataError
from ..types import Batch
from .continuation import Continuation
from .task import Task
from .text_task import TextTask
from .units import special_ids


def batch_of_positions(task: Task, inputs: Mapping[str, Tensor], shape: tuple[int, int]) -> Batch:
    """Make the batch that `task` would, as far as tensors tell: padding is what the attention mask leaves out."""
    some = next(iter(inputs.values()))
    real = inputs.get("attention_mask", torch.ones(shape, device=some.device)).bool()
    if not isinstance(task, TextTask):
        return Batch(inputs, real)
    _check(task)
    gated = real if task.gate_special else real & ~_special(task, inputs["input_ids"])
    ask = None if task.ask == "nowhere" else _ends(real)[task.ask]
    if ask is not None and task.ask == "last":  # it is where the answer is given, and never gated
        gated = gated.scatter(1, ask.unsqueeze(1), False)
    return Batch(inputs, gated, ask=ask)


def _check(task: TextTask) -> None:
    """Refuse a task whose units can only be found in a text."""
    what = None
    if isinstance(task, Continuation):
        what = "where the prompt ends"
    elif task.unit != "token":
        what = f"its {task.unit}s"
    elif task.keep or task.gate != "all":
        what = "what is never gated"
    if what is not None:
        raise DataError(
            f"{type(task).__name__} finds {what} in the text, and got token ids: explain texts with diffmask.explain, "
            "or say how ids become a batch with make_batch"
        )


def _special(task: TextTask, ids: Tensor) -> Bool[Tensor, "batch position"]:
    """Find what says how the text is laid out."""
    return torch.isin(ids, torch.tensor(sorted(special_ids(task.tokenizer)), device=ids.device))


def _ends(real: Bool[Tensor, "batch position"]) -> dict[str, Tensor]:
    """Return the first and the last real position of each example."""
    last = real.shape[1] - 1 - real.int().flip(1).argmax(1)
    return {"first": real.int().argmax(1), "last": last}
