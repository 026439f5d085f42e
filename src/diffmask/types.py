"""The few things that travel between rooms: a batch, a prediction, and the heads it is made of.

Axis names in shapes: *batch* examples, *unit* tokens, patches or time steps, *hidden* features of a state,
*depth* how far up the probe may read, *voter* one gate network per depth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from .errors import DataError, ModelError


@dataclass(frozen=True)
class Batch:
    """Examples ready for the model: its keyword arguments, and which units are real.

    A unit is one position of the states, unless `place` says which unit each position belongs to (−1: to none, it is
    always kept). `ask` is the position where the prediction is made, if a gate should know what is asked there.
    """

    inputs: Mapping[str, Any]
    valid: Bool[Tensor, "batch unit"]
    place: Int[Tensor, "batch position"] | None = None
    ask: Int[Tensor, " batch"] | None = None

    def __post_init__(self) -> None:
        if self.valid.dtype != torch.bool or self.valid.dim() != 2:
            raise DataError(
                f"valid must be a bool tensor (example, unit), got {self.valid.dtype} of shape "
                f"{tuple(self.valid.shape)}: pass mask.bool()"
            )
        empty = (~self.valid.any(1)).nonzero().flatten().tolist()
        if empty:
            which = f"example {empty[0]} of this batch has no units ({len(empty)} of {len(self.valid)} are empty)"
            raise DataError(
                f"{which if len(self.valid) > 1 else 'an example has no units'}: {self._why_empty(empty[0])}; filter "
                "such examples out of the data"
            )

    def _why_empty(self, row: int) -> str:
        real = self.inputs.get("attention_mask")
        if not isinstance(real, Tensor) or not bool(real[row].any()):
            return "there is nothing to explain in an empty sequence"
        return (
            "all there is of it always stays, such as special tokens that are not gated, what is marked to be kept, "
            "and the last token of a prompt"
        )

    def __len__(self) -> int:
        return len(self.valid)

    def to(self, device: torch.device | str) -> Batch:
        """Move every tensor to `device`; what is pinned goes there while the host works on."""
        return self._with(lambda t: t.to(device, non_blocking=True) if t.is_pinned() else t.to(device))

    def pin(self) -> Batch:
        """Lock every tensor in memory, from where a GPU fetches it without stopping the host."""
        return self._with(lambda tensor: tensor if tensor.is_cuda else tensor.pin_memory())

    def clone(self) -> Batch:
        """Copy every tensor."""
        return self._with(Tensor.clone)

    @property
    def tensors(self) -> list[Tensor]:
        """All its tensors, always in the same order."""
        every = (*self.inputs.values(), self.valid, self.place, self.ask)
        return [value for value in every if isinstance(value, Tensor)]

    def repeat(self, count: int) -> Batch:
        """Stand `count` copies of the batch one after the other."""
        return self._with(lambda tensor: repeat(tensor, count) if tensor.dim() and len(tensor) == len(self) else tensor)

    def take(self, rows: Int[Tensor, " row"]) -> Batch:
        """Make a batch of some examples, in any order and number; their padding stays."""
        return self._with(lambda tensor: tensor[rows] if tensor.dim() and len(tensor) == len(self) else tensor)

    def example(self, row: int) -> Batch:
        """Make a batch of one example alone."""
        return self.take(torch.tensor([row], device=self.valid.device))

    @property
    def shape(self) -> tuple[int, int]:
        """How many examples there are, and at how many positions their states stand."""
        rows, positions = (self.valid if self.place is None else self.place).shape
        return rows, positions

    @property
    def order(self) -> Int[Tensor, "batch position"]:
        """The number of each position in its example, counted from the first real one."""
        real, (rows, count) = self.inputs.get("attention_mask"), self.shape
        if isinstance(real, Tensor) and real.shape == (rows, count):
            return (real.long().cumsum(1) - 1).clamp_min(0)
        return torch.arange(count, device=self.valid.device).expand(rows, count)

    def pool(self, state: Float[Tensor, "batch position hidden"]) -> Float[Tensor, "batch unit hidden"]:
        """Average a state over the positions of each unit."""
        if self.place is None:
            return state
        wide = state.to(torch.promote_types(state.dtype, torch.float32))  # a sum may be more than float16 can hold
        sums, counts = self.add_up(wide), self.add_up(torch.ones_like(wide[..., :1]))
        return (sums / counts.clamp_min(1)).to(state.dtype)

    def around(self, units: Float[Tensor, "batch unit hidden"], count: int) -> Float[Tensor, "batch unit hidden"]:
        """Average each real unit with those that are real among the `count` before it and the `count` behind it."""
        wide = torch.promote_types(units.dtype, torch.float32)
        valid = self.valid.unsqueeze(1).to(wide)
        real = units.to(wide).masked_fill(~self.valid.unsqueeze(-1), 0).mT
        sums, shares = (F.avg_pool1d(each, 2 * count + 1, stride=1, padding=count) for each in (real, valid))
        return torch.where(self.valid.unsqueeze(-1), (sums / shares.clamp_min(1e-9)).mT, 0).to(units.dtype)

    def add_up(self, values: Float[Tensor, "batch position hidden"]) -> Float[Tensor, "batch unit hidden"]:
        """Sum what belongs to positions over the positions of each unit."""
        if self.place is None:
            return values
        rows, units = self.valid.shape
        sums = values.new_zeros(rows, units + 1, values.shape[-1])  # the last one takes what belongs to no unit
        index = torch.where(self.place < 0, units, self.place).unsqueeze(-1).expand_as(values)
        return sums.scatter_add(1, index, values)[:, :units]

    def spread(self, keep: Float[Tensor, "batch unit"] | Bool[Tensor, "batch unit"]) -> Float[Tensor, "batch position"]:
        """Lay what is said of units out over their positions; what belongs to no real unit is kept."""
        keep = torch.where(self.valid, keep.float(), 1.0)
        if self.place is None:
            return keep
        return torch.where(self.place >= 0, keep.gather(1, self.place.clamp_min(0)), 1.0)

    def _with(self, do: Callable[[Tensor], Tensor]) -> Batch:
        inputs = {name: do(value) if isinstance(value, Tensor) else value for name, value in self.inputs.items()}
        place, ask = (None if tensor is None else do(tensor) for tensor in (self.place, self.ask))
        made = object.__new__(Batch)  # what was checked is not checked again: on a GPU that would stop the host
        for name, value in {"inputs": inputs, "valid": do(self.valid), "place": place, "ask": ask}.items():
            object.__setattr__(made, name, value)
        return made


def repeat(tensor: Tensor, count: int) -> Tensor:
    """Stand `count` copies of a tensor one after the other along its first axis."""
    return tensor.repeat(count, *[1] * (tensor.dim() - 1))


@dataclass(frozen=True)
class Categorical:
    """One choice among the categories on the last axis; impossible ones may be −inf. Only `real` positions count."""

    raw: Float[Tensor, " batch *rest category"]
    real: Bool[Tensor, "batch unit"] | None = None

    def log_probs(self) -> Float[Tensor, " batch *rest category"]:
        return counted(self).float().log_softmax(-1)

    def decision(self) -> Tensor:
        return self.raw.argmax(-1)


@dataclass(frozen=True)
class Bernoulli:
    """Independent yes/no answers, one logit each. Only `real` positions count."""

    raw: Float[Tensor, " batch *rest"]
    real: Bool[Tensor, "batch unit"] | None = None

    def log_probs(self) -> Float[Tensor, " batch *rest 2"]:
        logit = counted(self).float()
        return torch.stack([F.logsigmoid(-logit), F.logsigmoid(logit)], dim=-1)

    def decision(self) -> Tensor:
        return (self.raw > 0).long()


@dataclass(frozen=True)
class Value:
    """A regression output: numbers, not probabilities. It decides nothing that could stay the same to the bit."""

    raw: Float[Tensor, " batch *rest"]
    real: Bool[Tensor, "batch unit"] | None = None


NOT_REAL = -1  # the answer at a position that is not real: no decision
Prediction = Mapping[str, Categorical | Bernoulli | Value]


def counted(head: Categorical | Bernoulli | Value) -> Tensor:
    """Return what the model gave, with 0 at positions that are not real: whatever stands there must not count."""
    if head.real is None:
        return head.raw
    return torch.where(head.real.view(*head.real.shape, *[1] * (head.raw.dim() - 2)), head.raw, 0)


def split_prediction(prediction: Prediction, count: int) -> list[Prediction]:
    """Take a prediction for `count` copies of a batch apart, copy by copy."""

    def parts(head: Categorical | Bernoulli | Value) -> list[Categorical | Bernoulli | Value]:
        reals = [None] * count if head.real is None else head.real.chunk(count)
        return [replace(head, raw=raw, real=real) for raw, real in zip(head.raw.chunk(count), reals, strict=True)]

    split = {name: parts(head) for name, head in prediction.items()}
    return [{name: heads[copy] for name, heads in split.items()} for copy in range(count)]


def join_predictions(predictions: Sequence[Prediction]) -> Prediction:
    """Put the predictions for several batches one after the other."""

    def whole(heads: Sequence[Categorical | Bernoulli | Value]) -> Categorical | Bernoulli | Value:
        reals = [head.real for head in heads if head.real is not None]
        return replace(heads[0], raw=torch.cat([h.raw for h in heads]), real=torch.cat(reals) if reals else None)

    if len(predictions) == 1:
        return predictions[0]
    return {name: whole([prediction[name] for prediction in predictions]) for name in predictions[0]}


def decisions(prediction: Prediction) -> dict[str, Tensor]:
    """Return what the model would answer, head by head; a value is no decision."""
    return {name: head.decision() for name, head in prediction.items() if not isinstance(head, Value)}


def answers(prediction: Prediction) -> dict[str, Tensor]:
    """Return what the model answers, head by head: its decisions, yes or no as such, and values as they are."""
    return {name: _answer(head) for name, head in prediction.items()}


def _answer(head: Categorical | Bernoulli | Value) -> Tensor:
    if isinstance(head, Value):
        return counted(head)
    decided = head.decision()
    if head.real is not None:
        return torch.where(head.real.view(*head.real.shape, *[1] * (decided.dim() - 2)), decided, NOT_REAL)
    return decided.bool() if isinstance(head, Bernoulli) else decided


def check_finite(prediction: Prediction, when: str = "") -> None:
    """Refuse a prediction with NaN or +inf in it: every divergence from it would be meaningless."""
    for name, head in prediction.items():
        raise_if_broken(name, broken(head), when)


def broken(head: Categorical | Bernoulli | Value) -> Bool[Tensor, " batch"]:
    """Say of which examples an output is NaN or infinite, without waiting for the device."""
    raw = counted(head)
    if isinstance(head, Categorical):  # a category may be ruled out with −inf, but not every one; NaN is the largest
        raw = raw.amax(-1, keepdim=True)
    bad = ~(raw.abs() < torch.inf)
    return bad.flatten(1).any(1) if bad.dim() > 1 else bad


def raise_if_broken(name: str, bad: Bool[Tensor, " batch"], when: str = "") -> None:
    """Raise if an output is broken for any example; this waits for the device."""
    if bool(bad.any()):
        raise ModelError(
            f"the model's output '{name}' is NaN or infinite{when} for {int(bad.sum())} of {len(bad)} examples of "
            f"a batch (the first is number {int(bad.nonzero()[0])}): check the model on them, e.g. in float32"
        )
