"""On a GPU a small model waits for its next kernel: explaining must not launch many more than a plain pass."""

import pytest
import torch

from diffmask.explaining.explain import explain
from diffmask.gates.probe import make_probe
from diffmask.training.config import recipe
from diffmask.training.fit import Fit
from launches import EXAMPLES, as_on_a_gpu, count, small_bert

ROWS = list(range(EXAMPLES))


@pytest.mark.parametrize("kind", ["input", "hidden"])
def test_explaining_at_every_depth_launches_a_quarter_more_than_a_plain_pass_at_most(monkeypatch, kind):
    as_on_a_gpu(monkeypatch)
    model, task = small_bert()
    config = recipe("text", kind=kind, hidden=8)
    probe = make_probe(model.sites.names, [16] * len(model.sites), config.probe)
    fitted = Fit(model, task, probe, config, [], [], [], "")

    @torch.no_grad()
    def plain():
        batch = task.collate(ROWS).to(model.device)
        task.read(model(batch), batch)

    forward = count(plain).total
    batches = 4
    own = count(lambda: explain(fitted, ROWS * batches, verify=False, batch_size=EXAMPLES)).total / batches
    verified = count(lambda: explain(fitted, ROWS * batches, batch_size=EXAMPLES)).total / batches
    assert own <= 1.25 * forward and verified <= 2.5 * forward
