"""Noise that knows a unit's number in its example, and nothing of its mates or its padding."""

import pytest
import torch

from diffmask.gates.hard_concrete import HardConcrete
from diffmask.gates.noise import BLOCK, normal_noise, number_real, uniform_noise
from diffmask.gates.score_function import ScoreFunction
from diffmask.gates.votes import Votes


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def draw(kind, order, seed=0):
    return uniform_noise(order, seeded(seed)) if kind == "uniform" else normal_noise(order, 3, seeded(seed))


def padded(length, width, left=False):
    real = torch.arange(width) < length
    return (real.flip(0) if left else real).unsqueeze(0)


@pytest.mark.parametrize("kind", ["uniform", "normal"])
@pytest.mark.parametrize("width", [5, BLOCK, BLOCK + 1, 5 * BLOCK])
@pytest.mark.parametrize("left", [False, True])
def test_padding_and_longer_mates_change_nothing(kind, width, left):
    real, mate = padded(4, width, left), padded(width, width)
    alone = draw(kind, number_real(padded(4, 4)))
    among = draw(kind, number_real(torch.cat([mate, real])))
    assert torch.equal(among[1][real[0]], alone[0])
    assert torch.equal(among[0][:4], alone[0])  # and every example meets the same stream


@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_another_seed_draws_others_and_units_differ(kind):
    order = number_real(padded(3 * BLOCK, 3 * BLOCK))
    first, other = draw(kind, order), draw(kind, order, seed=1)
    assert not torch.equal(first, other)
    assert len(first[0].unique(dim=0)) == 3 * BLOCK


def test_noise_has_the_distribution_it_says():
    order = torch.arange(20_000).unsqueeze(0)
    flat, normal = uniform_noise(order, seeded()), normal_noise(order, 2, seeded())
    assert float(flat.min()) >= 0 and float(flat.max()) < 1
    assert float(flat.mean()) == pytest.approx(0.5, abs=0.01) and float(flat.var()) == pytest.approx(1 / 12, abs=0.003)
    assert float(normal.mean()) == pytest.approx(0, abs=0.02) and float(normal.std()) == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("gate", [HardConcrete(), ScoreFunction()], ids=["hard concrete", "reinforce"])
def test_votes_with_an_order_are_drawn_by_it_and_others_as_ever(gate):
    logits = torch.zeros(2, 3, 4)
    order = number_real(torch.ones(3, 4, dtype=torch.bool))
    by_order = Votes(logits, gate, order).sample(seeded())
    assert torch.equal(by_order[:, 0], by_order[:, 2]) and not torch.equal(by_order[0], by_order[1])
    assert torch.equal(Votes(logits, gate).sample(seeded()), gate.sample(logits, seeded()))
    noise = torch.rand(logits.shape, generator=seeded())
    assert torch.equal(gate.sample(logits, seeded()), gate.decide(logits, noise))
