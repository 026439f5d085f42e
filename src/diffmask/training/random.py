"""Every random draw of a run, made from its seed and its step alone, so that a resumed run repeats it exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

NOISE, ORDER, DEPTH, START, ABLATION = range(5)  # what a draw is for; each has its own stream


def generator(seed: int, purpose: int, number: int = 0, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a generator that depends on nothing but its arguments."""
    mixed = ((seed * 5 + purpose) * 1_000_003 + number) * 2_654_435_761 % (1 << 63)
    return torch.Generator(device).manual_seed(mixed)


POOL = 16  # batches among which examples of like length are put together


def batch_indices(
    example_count: int, batch_size: int, seed: int, first: int = 0, lengths: Sequence[int] | None = None
) -> Iterator[list[int]]:
    """Yield the rows of each batch from step `first` on, epoch after epoch, shuffled anew in each."""
    size = min(batch_size, example_count)
    per_epoch = example_count // size
    number = first
    while True:
        epoch, place = divmod(number, per_epoch)
        draw = generator(seed, ORDER, epoch)
        order = torch.randperm(example_count, generator=draw)[: per_epoch * size]
        batches = _slices(order, size) if lengths is None else _of_like_length(order, size, lengths, draw)
        yield from (rows.tolist() for rows in batches[place:])
        number = (epoch + 1) * per_epoch


def _slices(order: Tensor, size: int) -> list[Tensor]:
    return [order[start : start + size] for start in range(0, len(order), size)]


def _of_like_length(order: Tensor, size: int, lengths: Sequence[int], draw: torch.Generator) -> list[Tensor]:
    """Sort each pool of batches by length and shuffle the batches: little padding, and still a random order."""
    known = torch.tensor(lengths)
    pools = [pool[known[pool].argsort(stable=True)] for pool in _slices(order, POOL * size)]
    batches = _slices(torch.cat(pools), size)
    return [batches[i] for i in torch.randperm(len(batches), generator=draw).tolist()]


def draw_depths(depths: Sequence[int], count: int, seed: int, number: int) -> list[int]:
    """Draw `count` depths (0: all) so that each has its turn: every round is a new permutation of them."""
    if count == 0 or count >= len(depths):
        return list(depths)
    turns = (divmod(draw, len(depths)) for draw in range(number * count, (number + 1) * count))
    drawn = [depths[_permuted(len(depths), seed, turn)[place]] for turn, place in turns]
    return sorted(set(drawn))  # two rounds may meet in one step


def _permuted(count: int, seed: int, turn: int) -> list[int]:
    order: list[int] = torch.randperm(count, generator=generator(seed, DEPTH, turn)).tolist()
    return order
