"""Draws that belong to an example, and what is remembered about a model."""

import gc
import weakref

import torch
from torch import nn

from diffmask.evaluation.remembered import MOST, Remembered
from diffmask.training.draws import content_seeds, unit_noise
from diffmask.types import Batch


def batch_of(rows, width, side="right", extra=None):
    """Pad rows of ids to a width; what stands in the padding differs each time."""
    ids, valid = torch.randint(50, 99, (len(rows), width)), torch.zeros(len(rows), width, dtype=torch.bool)
    for number, row in enumerate(rows):
        start = width - len(row) if side == "left" else 0
        ids[number, start : start + len(row)] = torch.tensor(row)
        valid[number, start : start + len(row)] = True
    return Batch({"ids": ids, **(extra or {})}, valid)


def test_a_seed_depends_on_the_units_alone():
    first = content_seeds(batch_of([[1, 2, 3], [4, 5]], 3))
    again = content_seeds(batch_of([[4, 5], [1, 2, 3], [1, 2]], 7, "left"))
    assert again[:2] == [first[1], first[0]] and len(set(again)) == 3
    assert content_seeds(batch_of([[1, 2, 3]], 3), seed=1) != first[:1]


def test_an_input_that_is_not_per_position_counts_too_but_a_decoders_does_not():
    def seeds(name, rows):
        return content_seeds(batch_of([[1, 2, 3]] * 2, 3, extra={name: torch.tensor(rows)}))

    first, second = seeds("query", [[1, 2], [3, 4]])
    assert first != second and seeds("query", [[1, 2], [5, 6]])[0] == first
    assert seeds("decoder_input_ids", [[1, 2], [3, 4]])[0] == content_seeds(batch_of([[1, 2, 3]], 3))[0]
    pixels = Batch({"pixels": torch.rand(3, 3, 8, 8)}, torch.ones(3, 16, dtype=torch.bool))
    assert len(set(content_seeds(pixels))) == 3 and content_seeds(pixels) == content_seeds(pixels)


def test_noise_is_that_of_the_example_wherever_it_stands():
    right = unit_noise(batch_of([[1, 2, 3], [4, 5]], 4), count=2)
    left = unit_noise(batch_of([[4, 5]], 9, "left"), count=2)
    assert torch.equal(right[:, 1, :2], left[:, 0, -2:]) and (left[:, 0, :-2] == 0).all()
    assert not torch.equal(right[0], right[1])


def test_a_result_is_remembered_for_a_model_until_its_weights_change():
    memory, model, made = Remembered(), nn.Linear(2, 2), []

    def make():
        made.append(len(made))
        return made[-1]

    task = object()
    assert [memory.get(model, (task, "site"), make) for _ in range(3)] == [0, 0, 0]
    assert memory.get(model, (task, "other"), make) == 1 and memory.get(nn.Linear(2, 2), (task, "site"), make) == 2
    with torch.no_grad():
        model.weight.add_(1)
    assert memory.get(model, (task, "site"), make) == 3
    model.load_state_dict(nn.Linear(2, 2).state_dict())
    assert memory.get(model, (task, "site"), make) == 4


def test_only_so_much_is_remembered_and_nothing_about_a_model_that_is_gone():
    memory, model = Remembered(), nn.Linear(2, 2)
    for number in range(3 * MOST):
        memory.get(model, (number,), lambda number=number: number)
    assert len(memory._found[model]) == MOST
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None and len(memory._found) == 0
