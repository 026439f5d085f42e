"""A fit on several processes: each takes some rows of every batch, and together they do what one would do with all.

What is summed is weighted by examples, not by processes, so that parts of unequal size count as they should; every
process draws the noise of the whole batch and uses its own rows of it. Probe, λ and optimiser are the same everywhere.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, distributed, nn

from ..errors import SettingError
from ..gates.noise import Part

if TYPE_CHECKING:
    from accelerate import Accelerator

T = TypeVar("T")


def accelerate() -> Accelerator:
    """Return what knows the devices; mixed precision and accumulation are the user's for their own training.

    A group of processes that begins here ends with this process: one that is left open may abort it at its very end.
    """
    from accelerate import Accelerator  # late: it takes long to import, and explaining does without

    begun = _in_group()
    found = Accelerator(mixed_precision="no", gradient_accumulation_steps=1)  # gates need float32 and every step
    if _in_group() and not begun:
        atexit.register(_end_group)
    return found


def _in_group() -> bool:
    return distributed.is_available() and distributed.is_initialized()


def _end_group() -> None:
    if _in_group():  # the user may have ended it
        distributed.destroy_process_group()


def is_first() -> bool:
    """Say whether this process is alone or the first of several: the one that speaks, and writes what all have."""
    return bool(accelerate().is_main_process)


class Processes:
    """The processes of a fit, of which this is number `rank`; most fits have one."""

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        self.count, self.rank = accelerator.num_processes, accelerator.process_index
        started = int(os.environ.get("WORLD_SIZE", "1"))
        if started > 1 and self.count == 1:  # each would fit alone, and all write the same files
            raise SettingError(
                f"this is one of {started} processes, but without a GPU each believes to be alone: set "
                "ACCELERATE_USE_CPU=true, or start one"
            )

    @property
    def main(self) -> bool:
        """Whether this is the one that writes files and draws bars."""
        return self.rank == 0

    def part(self, total: int) -> Part | None:
        """Return which of `total` examples are this process's; None if it is alone and has all."""
        if self.count == 1:
            return None
        if total < self.count:
            raise SettingError(
                f"a batch of {total} examples cannot be shared by {self.count} processes: raise batch_size, or start "
                "fewer"
            )
        size, more = divmod(total, self.count)
        first = self.rank * size + min(self.rank, more)
        return Part(first, first + size + (self.rank < more), total)

    def mean(self, values: Tensor) -> Tensor:
        """Average over the examples of all processes; the gradient is of this process's part of that average."""
        if self.count == 1:
            return values.mean(-1)
        sums = torch.stack([values.detach().sum(-1), torch.full_like(values[..., 0], float(values.shape[-1]))])
        torch.distributed.all_reduce(sums)
        mine = values.sum(-1) / sums[1]
        return mine + (sums[0] / sums[1] - mine).detach()

    def add_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Add up the gradients of all processes, in one go."""
        grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
        if self.count == 1 or not grads:
            return
        flat = torch.cat([grad.flatten() for grad in grads])
        torch.distributed.all_reduce(flat)
        for grad, total in zip(grads, torch.split(flat, [grad.numel() for grad in grads]), strict=True):
            grad.copy_(total.view_as(grad))

    def follow_main(self, *modules: nn.Module) -> None:
        """Take over what the main process has, to the bit."""
        for tensor in (t for module in modules for t in module.state_dict().values() if self.count > 1):
            torch.distributed.broadcast(tensor, 0)

    def mine(self, items: Iterable[T]) -> Iterable[T]:
        """Yield every so-manieth item, such that each is somebody's."""
        return (item for number, item in enumerate(items) if number % self.count == self.rank)

    def all_of(self, mine: Sequence[T]) -> Sequence[T]:
        """Bring together, in their order, what each process made of its items."""
        if self.count == 1:
            return mine
        found: list[Any] = [None] * self.count
        torch.distributed.all_gather_object(found, list(mine))
        return [found[i % self.count][i // self.count] for i in range(sum(map(len, found)))]

    def as_main(self, value: T) -> T:
        """Return what the main process has."""
        return value if self.count == 1 else next(iter(self.all_of([value])))

    def all_say(self, mine: bool) -> bool:
        """Say whether every process says yes."""
        return all(self.all_of([mine]))

    def wait(self) -> None:
        """Go on when all processes have come here."""
        self.accelerator.wait_for_everyone()
