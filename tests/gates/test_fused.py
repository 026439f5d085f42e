"""All voters at once say what they say one by one."""

import pytest
import torch

from diffmask.gates import fused as fused_file
from diffmask.gates.probe import ProbeConfig, make_probe

NAMES = ("a", "b", "c", "d")


def probe_with_opinions(widths=(6, 6, 6, 6), count=4, **settings):
    torch.manual_seed(0)
    probe = make_probe(NAMES[:count], widths[:count], ProbeConfig(**settings))
    for voter in probe.voters:
        for parameter in voter.parameters():
            torch.nn.init.normal_(parameter)
    stats = [(torch.randn(width), torch.rand(width) + 0.1) for width in widths[:count]]
    probe.standardise([mean for mean, _ in stats], [std for _, std in stats])
    probe.shift.copy_(torch.randn(count))
    return probe


def reading(widths=(6, 6, 6, 6), dtype=torch.float32):
    torch.manual_seed(1)
    return {name: torch.randn(3, 5, width).to(dtype) for name, width in zip(NAMES, widths, strict=True)}


def one_by_one(probe, states):
    return torch.stack([votes.log_keep() for votes in probe.votes(states, range(probe.depth_count))])


SETTINGS = [
    {"kind": "hidden"},
    {"kind": "input"},
    {"kind": "input", "votes": "separate"},
    {"kind": "input", "votes": "coupled"},
    {"kind": "input", "reads": "all"},
    {"kind": "hidden", "gate": "reinforce"},
    {"kind": "input", "votes": "coupled", "voter": "published"},
    {"kind": "hidden", "voter": "linear"},
    {"kind": "input", "voter": "linear"},
    {"kind": "input", "voter": "linear", "votes": "separate"},
    {"kind": "input", "voter": "linear", "reads": "all"},
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_all_voters_at_once_say_what_each_says_alone(settings, count, dtype):
    probe, states = probe_with_opinions(count=count, **settings), reading(dtype=dtype)
    states = {name: states[name] for name in probe.site_names}
    with torch.no_grad():
        torch.testing.assert_close(probe.log_keep(states), one_by_one(probe, states), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["input", "hidden"])
def test_one_batched_product_gives_what_one_after_the_other_gives(kind):
    probe, states = probe_with_opinions(kind=kind), reading()
    made = probe._fused()
    rows = [states[name].flatten(0, 1) for name in NAMES]
    with torch.no_grad():
        together = made._together(rows)
        torch.testing.assert_close(together, made._one_by_one(rows))


def test_sites_of_different_widths_are_asked_one_by_one():
    widths = (6, 4, 8, 6)
    probe, states = probe_with_opinions(widths, kind="input"), reading(widths)
    with torch.no_grad():
        assert torch.equal(probe.log_keep(states), one_by_one(probe, states))


@pytest.mark.parametrize("kind", ["input", "hidden"])
def test_linear_voters_are_asked_at_once_whatever_the_widths(kind):
    widths = (6, 4, 8, 6)
    probe, states = probe_with_opinions(widths, kind=kind, voter="linear"), reading(widths)
    with torch.no_grad():
        assert probe._fused() is not None
        torch.testing.assert_close(probe.log_keep(states), one_by_one(probe, states), rtol=1e-4, atol=1e-5)


def test_a_weight_that_changes_is_noticed_and_one_that_does_not_costs_nothing(monkeypatch):
    probe, states, made = probe_with_opinions(kind="input"), reading(), []
    monkeypatch.setattr("diffmask.gates.probe.fuse", lambda *a: made.append(1) or fused_file.fuse(*a))
    with torch.no_grad():
        before = probe.log_keep(states)
        assert torch.equal(probe.log_keep(states), before) and len(made) == 1
        probe.voter(2).last.bias.add_(1)
        assert not torch.equal(probe.log_keep(states)[2], before[2]) and len(made) == 2
        probe.load_state_dict(probe_with_opinions(kind="input").state_dict())
        assert torch.equal(probe.log_keep(states), before) and len(made) == 3


def test_a_gradient_still_reaches_the_voters():
    probe = probe_with_opinions(kind="input")
    probe.log_keep(reading()).sum().backward()
    assert all(voter.first.weight.grad is not None for voter in probe.voters)


def test_weights_that_count_no_changes_are_asked_one_by_one():
    with torch.inference_mode():
        probe = probe_with_opinions(kind="input")
    with torch.no_grad():
        torch.testing.assert_close(probe.log_keep(reading()), one_by_one(probe, reading()))
    assert probe._kept_fused is None
