"""Adam on the units of a batch, every example a problem of its own."""

import pytest
import torch

from diffmask.errors import ModelError
from diffmask.training.descend import descend


def bowl(goal):
    return lambda values, number: (values - goal).square().sum((1, 2))


def test_it_finds_the_bottom():
    goal = torch.tensor([[[1.0], [-2.0]]])
    torch.testing.assert_close(descend(torch.zeros(1, 2, 1), bowl(goal), 800, 0.05), goal, atol=1e-2, rtol=0)


def test_it_does_what_torch_does_for_each_example_alone():
    goal = torch.randn(3, 4, 2, generator=torch.Generator().manual_seed(0))
    found = descend(torch.zeros(3, 4, 2), bowl(goal), 10, 0.1)
    for row in range(3):
        assert torch.equal(found[row : row + 1], descend(torch.zeros(1, 4, 2), bowl(goal[row : row + 1]), 10, 0.1))


def test_it_knows_the_step_works_without_gradients_around_it_and_leaves_the_start_alone():
    steps, start = [], torch.zeros(1, 1, 1)

    def loss(values, number):
        steps.append(number)
        return values.sum((1, 2))

    with torch.no_grad():
        found = descend(start, loss, 3, 0.1)
    assert steps == [0, 1, 2] and float(start) == 0 and not found.requires_grad
    assert float(found) == pytest.approx(-0.3, abs=1e-4)


def test_a_loss_that_is_no_number_is_refused():
    with pytest.raises(ModelError, match="became NaN or infinite"):
        descend(torch.zeros(1, 1, 1), lambda values, number: (values / 0).sum((1, 2)), 2, 0.1)
