"""Sparsity: both readings of "how much is kept", over real units only."""

import pytest
import torch
from torch.autograd import gradcheck

from diffmask.gates.hard_concrete import HardConcrete
from diffmask.gates.votes import Votes
from diffmask.objective.sparsity import SPARSITIES, expected_l0, log_open, mean_over_units

GATE = HardConcrete()
VALID = torch.tensor([[True, True, True], [True, False, False]])


@pytest.fixture
def votes() -> Votes:
    return Votes(torch.randn(2, 2, 3, generator=torch.Generator().manual_seed(0)), GATE)


def test_both_match_a_slow_loop(votes):
    kept = GATE.open(votes.logits).prod(0)
    for i, row in enumerate(VALID):
        real = [float(kept[i, j]) for j in range(3) if row[j]]
        assert float(expected_l0(votes, VALID)[i]) == pytest.approx(sum(real) / len(real), rel=1e-5)
        logs = [float(torch.tensor(k).log()) for k in real]
        assert float(log_open(votes, VALID)[i]) == pytest.approx(sum(logs) / len(real), rel=1e-4)


def test_the_expected_share_is_the_share_of_samples_that_are_not_zero(votes):
    many = Votes(votes.logits.repeat(1, 10_000, 1), GATE)
    kept = many.sample(torch.Generator().manual_seed(0)).prod(0) > 0
    seen = mean_over_units(kept, VALID.repeat(10_000, 1)).reshape(10_000, 2).mean(0)
    assert torch.allclose(expected_l0(votes, VALID), seen, atol=0.02)


@pytest.mark.parametrize("measure", [expected_l0, log_open])
def test_padding_does_not_count(votes, measure):
    changed = Votes(torch.where(VALID, votes.logits, 50.0), GATE)
    assert torch.equal(measure(votes, VALID), measure(changed, VALID))


@pytest.mark.parametrize("measure", [expected_l0, log_open])
def test_opening_a_gate_raises_it(votes, measure):
    opened = Votes(votes.logits + 1, GATE)
    assert bool((measure(opened, VALID) > measure(votes, VALID)).all())


def test_the_log_pulls_on_a_closed_gate_and_the_share_does_not():
    pulls = []
    for measure in (expected_l0, log_open):
        logits = torch.full((1, 1, 1), -15.0, requires_grad=True)
        measure(Votes(logits, GATE), torch.ones(1, 1, dtype=torch.bool)).sum().backward()
        pulls.append(float(logits.grad))
    assert pulls[0] < 1e-5 and pulls[1] == pytest.approx(1.0, abs=1e-5)


def test_gradients_of_the_log_probability_are_right():
    logits = torch.randn(2, 2, 3, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda x: Votes(x, GATE).log_keep(), logits)
    assert gradcheck(lambda x: Votes(x, GATE).keep_probability(), logits)


def test_every_entry_of_the_table_exists():
    assert SPARSITIES.get("expected-l0") is expected_l0 and SPARSITIES.get("log-open") is log_open
