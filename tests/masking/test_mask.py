"""Acting on a decision: blend toward the baseline, leave padding alone, run only what comes after."""

import pytest
import torch
from torch.autograd import gradcheck

from diffmask.errors import SiteError
from diffmask.masking.mask import mask_state, run_masked
from diffmask.models.sites import capture, replace

SITES = ["embed", "blocks.0", "blocks.2"]


@pytest.fixture
def seen(adapter, batch):
    with torch.no_grad(), capture(adapter.sites) as states:
        output = adapter(batch)
    return states, output


def test_a_state_is_blended_unit_by_unit():
    state, baseline = torch.randn(2, 3, 4), torch.randn(4)
    keep = torch.tensor([[1.0, 0.0, 0.25], [0.5, 1.0, 0.0]])
    masked = mask_state(state, keep, baseline)
    for i in range(2):
        for j in range(3):
            blend = [float(keep[i, j] * s + (1 - keep[i, j]) * b) for s, b in zip(state[i, j], baseline, strict=True)]
            assert masked[i, j].tolist() == pytest.approx(blend, abs=1e-6)


def test_keeping_all_is_exactly_the_state_and_keeping_none_exactly_the_baseline():
    state, baseline = 100 * torch.randn(2, 3, 4), torch.randn(4)
    assert torch.equal(mask_state(state, torch.ones(2, 3), baseline), state)
    assert torch.equal(mask_state(state, torch.zeros(2, 3), baseline), baseline.expand(2, 3, 4))


def test_a_half_precision_state_stays_one():
    state = torch.randn(1, 2, 4, dtype=torch.float16)
    masked = mask_state(state, torch.tensor([[1.0, 0.0]]), torch.ones(4))
    assert masked.dtype == torch.float16 and torch.equal(masked[0, 0], state[0, 0])


def test_gradients_reach_state_keep_and_baseline():
    shapes = [(2, 3, 4), (2, 3), (4,)]
    assert gradcheck(mask_state, [torch.rand(s, dtype=torch.float64, requires_grad=True) for s in shapes])


@pytest.mark.parametrize("site", SITES)
def test_keeping_every_unit_is_exactly_the_original_model(adapter, batch, seen, site):
    states, output = seen
    assert torch.equal(run_masked(adapter, batch, states, site, torch.ones(2, 5), torch.randn(4)), output)


@pytest.mark.parametrize("site", SITES)
def test_running_masked_is_replacing_the_masked_state_and_running_all(adapter, batch, seen, site):
    states, output = seen
    keep, baseline = torch.rand(2, 5), torch.randn(4)
    padded = torch.where(batch.valid, keep, torch.ones(2, 5))
    with torch.no_grad(), replace(adapter.sites[site], mask_state(states[site], padded, baseline)):
        slow = adapter(batch)
    assert torch.equal(run_masked(adapter, batch, states, site, keep, baseline), slow)
    assert not torch.isclose(slow, output).any()


def test_only_what_comes_after_the_site_runs(adapter, tower, batch, seen):
    before = [block.runs for block in tower.blocks]
    run_masked(adapter, batch, seen[0], "blocks.1", torch.zeros(2, 5), torch.zeros(4))
    assert [block.runs - runs for block, runs in zip(tower.blocks, before, strict=True)] == [0, 0, 1]


def test_padding_keeps_its_own_state(adapter, batch, seen):
    keep = torch.rand(2, 5)
    other = torch.where(batch.valid, keep, 1 - keep)
    outputs = [run_masked(adapter, batch, seen[0], "embed", k, torch.ones(4)) for k in (keep, other)]
    assert torch.equal(*outputs)


def test_a_yes_or_no_mask_is_as_good_as_numbers(adapter, batch, seen):
    keep = torch.tensor([[True, False, True, False, True]] * 2)
    outputs = [run_masked(adapter, batch, seen[0], "embed", k, torch.ones(4)) for k in (keep, keep.float())]
    assert torch.equal(*outputs)


def test_gradients_reach_gates_and_baseline_but_no_gate_of_padding(adapter, batch, seen):
    keep = torch.full((2, 5), 0.5, requires_grad=True)
    baseline = torch.randn(4, requires_grad=True)
    with adapter.frozen():
        run_masked(adapter, batch, seen[0], "embed", keep, baseline)[:, 0].sum().backward()
    assert torch.equal(keep.grad != 0, batch.valid) and bool((baseline.grad != 0).all())
    assert all(weight.grad is None for weight in adapter.model.parameters())


def test_a_site_that_does_not_exist_is_named(adapter, batch, seen):
    with pytest.raises(SiteError, match=r"'blocks\.9'; did you mean 'blocks"):
        run_masked(adapter, batch, seen[0], "blocks.9", torch.ones(2, 5), torch.ones(4))
