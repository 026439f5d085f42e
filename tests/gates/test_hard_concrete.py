"""The Hard Concrete against a slow second implementation, written from the formulas of Louizos et al. (2018)."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from diffmask.errors import SettingError
from diffmask.gates.hard_concrete import HardConcrete

PUBLISHED = HardConcrete(temperature=0.2, low=-0.2, high=1.0)
GATES = [PUBLISHED, HardConcrete(), HardConcrete(0.8, -0.1, 1.1)]
LOGITS = [-3.0, -1.0, 0.0, 0.7, 2.5]

each_gate = pytest.mark.parametrize("gate", GATES, ids=["published", "default", "soft"])


def slow_gate(u: float, logit: float, gate: HardConcrete) -> float:
    s = 1 / (1 + math.exp(-(math.log(u) - math.log(1 - u) + logit) / gate.temperature))
    return min(1.0, max(0.0, gate.low + (gate.high - gate.low) * s))


def slow_values(logit: float, gate: HardConcrete, count: int = 20_000) -> list[float]:
    """The gate at evenly spaced noise: sums over these are integrals over its distribution."""
    return [slow_gate((i + 0.5) / count, logit, gate) for i in range(count)]


@pytest.mark.parametrize(("logit", "probability"), [(5, 0.99514), (0, 0.5798), (-5, 0.00921), (-10, 6.3e-5)])
def test_an_open_gate_is_as_likely_as_in_the_paper(logit, probability):
    assert float(PUBLISHED.open(torch.tensor(float(logit)))) == pytest.approx(probability, rel=5e-3, abs=5e-6)


@each_gate
def test_samples_match_the_formula_noise_by_noise(gate):
    logits = torch.linspace(-6, 6, 200, dtype=torch.float64)
    noise = torch.rand(200, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    expected = [slow_gate(u, logit, gate) for u, logit in zip(noise.tolist(), logits.tolist(), strict=True)]
    sampled = gate.sample(logits, torch.Generator().manual_seed(3))
    assert torch.allclose(sampled, torch.tensor(expected, dtype=torch.float64), atol=1e-12)


@each_gate
@pytest.mark.parametrize("logit", LOGITS)
def test_the_probability_of_an_open_gate_matches_the_numeric_distribution(gate, logit):
    values = slow_values(logit, gate)
    numeric = sum(z > 0 for z in values) / len(values)
    assert float(gate.open(torch.tensor(logit))) == pytest.approx(numeric, abs=1e-4)


@each_gate
@pytest.mark.parametrize("logit", LOGITS)
def test_exact_zeros_and_ones_and_the_mean_are_as_frequent_as_they_should_be(gate, logit):
    count = 100_000
    sampled = gate.sample(torch.full((count,), logit), torch.Generator().manual_seed(0))
    values = slow_values(logit, gate)
    noise = 5 * 0.5 / math.sqrt(count)  # five standard errors of a share
    assert float((sampled > 0).float().mean()) == pytest.approx(float(gate.open(torch.tensor(logit))), abs=noise)
    if gate.high > 1:  # at 1 the formula only comes near it, and rounding decides
        assert float((sampled == 1).float().mean()) == pytest.approx(sum(z == 1 for z in values) / 20_000, abs=noise)
    assert float(sampled.mean()) == pytest.approx(sum(values) / 20_000, abs=noise)


def test_a_stretch_past_one_opens_gates_exactly_where_the_published_one_falls_short():
    half_open = torch.full((1000,), 0.5, dtype=torch.float64)
    published, ours = (gate.sample(half_open, torch.Generator().manual_seed(0)) for gate in (PUBLISHED, HardConcrete()))
    assert 0.3 < float((ours == 1).double().mean()) < 0.7 and float((published == 1).double().mean()) < 0.01


def test_all_gates_open_is_exactly_all_ones():
    assert bool((HardConcrete().sample(torch.full((10_000,), 20.0), torch.Generator().manual_seed(0)) == 1).all())


@each_gate
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_everything_is_finite_at_any_precision(gate, dtype):
    logits = torch.linspace(-30, 30, 241).to(dtype).requires_grad_(True)
    generator = torch.Generator().manual_seed(0)
    for values in (gate.open(logits), gate.log_open(logits), *(gate.sample(logits, generator) for _ in range(20))):
        (gradient,) = torch.autograd.grad(values.sum(), logits)
        assert bool(values.isfinite().all()) and bool(gradient.isfinite().all())
        assert values.dtype == torch.float32


@each_gate
def test_log_probabilities_are_exact_in_the_tails(gate):
    for logit in (-30.0, -15.0, 15.0, 30.0):
        exact = -math.log1p(math.exp(-(logit - gate.temperature * math.log(-gate.low / gate.high))))
        assert float(gate.log_open(torch.tensor(logit))) == pytest.approx(exact, rel=1e-5)


@each_gate
def test_gradients_are_right(gate):
    logits = torch.tensor([-4.0, -1.0, 0.1, 0.9, 3.0], dtype=torch.float64, requires_grad=True)
    assert gradcheck(gate.open, logits) and gradcheck(gate.log_open, logits)
    assert gradcheck(lambda x: gate.sample(x, torch.Generator().manual_seed(7)), logits)


@each_gate
def test_a_sample_between_zero_and_one_has_a_gradient(gate):
    logits = torch.zeros(500, requires_grad=True)
    sampled = gate.sample(logits, torch.Generator().manual_seed(0))
    sampled.sum().backward()
    inside = (sampled > 0) & (sampled < 1)
    assert bool(inside.any()) and bool((logits.grad[inside] > 0).all()) and not bool(logits.grad[~inside].any())


@each_gate
@pytest.mark.parametrize("probability", [0.01, 0.5, 0.9])
def test_the_logit_of_a_probability_is_open_that_often(gate, probability):
    assert float(gate.open(torch.tensor(gate.logit_of(probability)))) == pytest.approx(probability, rel=1e-5)


def test_the_same_generator_draws_the_same_gates():
    draws = [HardConcrete().sample(torch.zeros(50), torch.Generator().manual_seed(5)) for _ in range(2)]
    assert torch.equal(*draws)


def test_the_divergence_needs_no_credit():
    divergence = torch.rand(3)
    assert HardConcrete().credit(divergence, torch.ones(1, 3, 2), torch.zeros(1, 3, 2), torch.ones(3, 2)) is divergence


@pytest.mark.parametrize("wrong", [{"temperature": 0.0}, {"low": 0.0}, {"high": 0.9}])
def test_a_gate_that_could_never_be_0_or_1_is_refused(wrong):
    with pytest.raises(SettingError, match=r"temperature > 0, low < 0 and high ≥ 1, got .*never be exactly 0, or 1"):
        HardConcrete(**wrong)
