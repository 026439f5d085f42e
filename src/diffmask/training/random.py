"""Every random draw of a run, made from its seed and its step alone, so that a resumed run repeats it exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

NOISE, ORDER, DEPTH, START, ABLATION = range(5)  # what a draw is for; each has its own stream


def generator(seed: int, purpose: int, number: int = 0, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a generator that depends on nothing but its arguments."""
    mixed = ((seed * 5 + purpose) * 1_000_003 + number) * 2_654_435_761 % (1 << 63)
    return torch.Generator(device).manual_seed(mixed)


def batch_indices(example_count: int, batch_size: int, seed: int, first: int = 0) -> Iterator[list[int]]:
    """Yield the rows of each batch from step `first` on, epoch after epoch, shuffled anew in each."""
    size = min(batch_size, example_count)
    per_epoch = example_count // size
    number = first
    while True:
        epoch, place = divmod(number, per_epoch)
        order = torch.randperm(example_count, generator=generator(seed, ORDER, epoch))
        for start in range(place * size, per_epoch * size, size):
            yield order[start : start + size].tolist()
        number = (epoch + 1) * per_epoch


def draw_depth(depths: Sequence[int], seed: int, number: int) -> int:
    """Draw a depth so that each has its turn: every round is a new permutation of them."""
    turn, place = divmod(number, len(depths))
    order = torch.randperm(len(depths), generator=generator(seed, DEPTH, turn))
    return depths[int(order[place])]
