"""What a method costs beside one plain forward pass of the model on the same batch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.utils.flop_counter import FlopCounterMode

from ..attribution.method import Method, Question


@dataclass(frozen=True)
class Cost:
    """A method's arithmetic in forward passes, and its time as a multiple of one, measured side by side."""

    forwards: float | None  # unknown where the model's layers cannot be counted
    seconds: float
    plain_seconds: float

    @property
    def time_ratio(self) -> float:
        return self.seconds / self.plain_seconds


def measure_cost(method: Method, question: Question) -> Cost:
    """Run a method twice on one batch: once counted, once timed, as counting takes time itself."""
    plain = _flops(lambda: _forward(question))
    counted = _flops(lambda: method(question))
    timed = [_seconds(question, run) for run in (lambda: _forward(question), lambda: method(question))]
    return Cost(counted / plain if plain else None, timed[1], timed[0])


@torch.no_grad()
def _forward(question: Question) -> None:
    with question.model.frozen():
        question.model(question.batch)


def _flops(run: Callable[[], object]) -> int:
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


def _seconds(question: Question, run: Callable[[], object]) -> float:
    device = question.batch.valid.device
    _wait(device)
    began = time.perf_counter()
    run()
    _wait(device)
    return time.perf_counter() - began


def _wait(device: torch.device) -> None:
    """Let a GPU finish what it was given: it works while the clock of the host runs on."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
