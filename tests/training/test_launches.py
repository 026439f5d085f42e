"""A step launches the passes of the model and little more, however many depths it trains."""

import pytest
import torch

from diffmask.gates.probe import make_probe
from diffmask.objective.objective import Objective
from diffmask.training.cache import Cache
from diffmask.training.config import recipe
from diffmask.training.step import look, step
from launches import EXAMPLES, as_on_a_gpu, count, small_bert

ROWS = list(range(EXAMPLES))


def launches(kind, depths, cached):
    """Return what a plain pass launches, what a step does without its optimiser, and how often the step waits."""
    model, task = small_bert()
    config = recipe("text", kind=kind, hidden=8)
    probe = make_probe(model.sites.names, [16] * len(model.sites), config.probe)
    objective, batch = Objective(config.objective, probe.depth_count), task.collate(ROWS)
    cache = Cache(model, task, "memory", 1 << 30, model.device)

    def run():
        seen = cache.look(ROWS, batch, max(depths)) if cached else look(model, task, batch.to(model.device))
        progress, noise = [0.7] * len(depths), torch.Generator().manual_seed(0)
        losses = step(seen, probe, objective, depths, progress=progress, generator=noise)
        torch.stack([loss.total for loss in losses]).sum().backward()
        probe.zero_grad()

    with model.frozen():
        forward, own = count(lambda: model(batch)), count(run)
    # The model itself asks whether anything is padding; what the cache looks at, seven times, is on the host.
    return own.total / forward.total, own.waits - (1 if cached else 2) * forward.waits


@pytest.mark.parametrize(
    ("kind", "depths", "cached", "most", "waits"),
    [
        ("input", [7], False, 4.3, 0),
        ("input", [7], True, 3.5, 7),
        ("input", range(8), True, 4.0, 7),
        ("hidden", [0], True, 3.15, 7),
        ("hidden", [7], True, 1.3, 7),
    ],
)
def test_a_step_launches_so_many_times_what_a_plain_pass_does(monkeypatch, kind, depths, cached, most, waits):
    as_on_a_gpu(monkeypatch)
    ratio, waited = launches(kind, depths, cached)
    assert ratio <= most and waited <= waits


@pytest.mark.parametrize(
    "look_at",
    [
        lambda numbers: numbers.tolist(),
        lambda numbers: numbers.numpy(),
        lambda numbers: numbers.cpu(),
        lambda numbers: float(numbers[0]),
        lambda numbers: numbers[numbers > 0],
        lambda numbers: numbers.nonzero(),
    ],
)
def test_looking_at_a_number_counts_as_a_wait_and_computing_with_it_does_not(look_at):
    numbers = torch.ones(3)
    assert count(lambda: look_at(numbers)).waits == 1
    assert count(lambda: numbers[torch.arange(2)] + numbers[:2].where(numbers[:2] > 0, 0)).waits == 0


def test_eight_depths_launch_little_more_than_one(monkeypatch):
    as_on_a_gpu(monkeypatch)
    assert launches("input", range(8), True)[0] <= 1.25 * launches("input", [7], True)[0]
