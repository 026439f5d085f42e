"""Go through many examples batch by batch: those of like length together, the next batch made while a GPU works."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, TypeVar

import torch
from jaxtyping import Bool
from torch import Tensor

from ..errors import DataError, ExampleError, SettingError
from ..tasks.task import Task, check_examples
from ..training.fit import Fit, check_patch
from ..types import Batch, Prediction, broken, raise_if_broken

T = TypeVar("T")


@dataclass(frozen=True)
class Chunk:
    """Some of the examples, which of them they are, and what is real in them, on the host."""

    rows: Sequence[int]
    examples: Sequence[Any]
    valid: Bool[Tensor, "batch unit"]

    def check(self, bad: dict[str, Tensor]) -> None:
        """Refuse predictions that cannot be explained, by the numbers of their examples."""
        for name, rows in bad.items():
            raise_if_broken(name, rows, f" in the batch of examples {_few(self.rows)}")


def check_fit(fitted: Any) -> None:
    """Refuse a model where a fitted probe is asked for."""
    if not isinstance(fitted, Fit):
        raise SettingError(
            f"explaining takes what diffmask.fit or from_pretrained returned, got {type(fitted).__name__}: fit a probe "
            "to the model first"
        )
    check_patch(fitted.model, fitted.task)  # a probe may be given another task than it was fitted to


def broken_rows(prediction: Prediction) -> dict[str, Tensor]:
    """Say for each output of which examples it is NaN or infinite, without waiting for the device."""
    return {name: broken(head) for name, head in prediction.items()}


def chunks(fitted: Fit, examples: Sequence[Any], batch_size: int) -> Iterator[tuple[Chunk, Batch]]:
    """Go through all examples, batch by batch on the model's device, in the order that costs least padding."""
    check_examples(examples)
    if not isinstance(batch_size, Integral) or batch_size < 1:
        raise SettingError(f"batch_size must be at least 1, got {batch_size}")
    if len(examples) == 0:
        raise DataError("there is nothing to explain: no examples were given")
    order, device = by_length(fitted.task, examples, batch_size), fitted.model.device
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        some = [examples[row] for row in rows]
        batch = each_of(fitted.task.collate, some, rows, len(examples))
        moved = batch.pin().to(device) if device.type == "cuda" else batch.to(device)
        yield Chunk(rows, some, batch.valid), moved


def by_length(task: Task, examples: Sequence[Any], batch_size: int) -> list[int]:
    """Order examples by length where there are several batches of them and length matters."""
    rows = list(range(len(examples)))
    lengths = each_of(task.lengths, examples, rows, len(rows)) if len(rows) > batch_size else None
    return rows if lengths is None else sorted(rows, key=lengths.__getitem__)


def each_of(make: Callable[[Sequence[Any]], T], examples: Sequence[Any], rows: Sequence[int], count: int) -> T:
    """Make something of examples; where that fails, say of which, by their rows among the `count` of the caller."""
    try:
        return make(examples)
    except DataError as error:
        for row, example in zip(rows, examples, strict=True):
            if (why := _complaint(make, example)) is not None:
                raise ExampleError(why, row, count) from error
        raise


def _complaint(make: Callable[[Sequence[Any]], object], example: Any) -> str | None:
    try:
        make([example])
    except DataError as error:
        return str(error)
    return None


def fetch(tensor: Tensor) -> Tensor:
    """Bring a tensor to the host; from a GPU the copy is only under way when this returns."""
    if not tensor.is_cuda:
        return tensor
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return host.copy_(tensor, non_blocking=True)


def fetch_each(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Bring several tensors to the host."""
    return {name: fetch(tensor) for name, tensor in tensors.items()}


def arrival(tensor: Tensor) -> Callable[[], object]:
    """Return what waits until all that was fetched so far from a tensor's device has come."""
    if not tensor.is_cuda:
        return lambda: None
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(tensor.device))
    wait: Callable[[], object] = event.synchronize
    return wait


def _few(rows: Sequence[int]) -> str:
    return ", ".join(map(str, rows[:4])) + (", …" if len(rows) > 4 else "")
