"""Divergences against torch.distributions and slow loops."""

import math

import pytest
import torch
from torch import distributions as d
from torch.autograd import gradcheck

from diffmask.errors import SettingError, UnknownNameError
from diffmask.objective import divergence as room
from diffmask.objective.divergence import agreement, decision, divergence, js, kl, squared_error, tv
from diffmask.types import Bernoulli, Categorical, Value

INF = float("inf")


def slow(measure: str, p: list[float], q: list[float]) -> float:
    if measure == "tv":
        return max(sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2, 0)
    if measure == "decision":
        first = p.index(max(p))
        return max(math.log(p[first] / q[first]), 0) if q[first] > 0 else INF
    if measure == "kl":
        return sum(a * math.log(a / b) if b > 0 else INF for a, b in zip(p, q, strict=True) if a > 0)
    middle = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    return (slow("kl", p, middle) + slow("kl", q, middle)) / 2


def slow_rows(measure: str, p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    rows = zip(p.flatten(0, -2).tolist(), q.flatten(0, -2).tolist(), strict=True)
    return torch.tensor([slow(measure, *row) for row in rows]).reshape(p.shape[:-1])


def logits(*shape: int, seed: int) -> torch.Tensor:
    return 3 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


each_measure = pytest.mark.parametrize("measure", ["kl", "js", "tv", "decision"])


@each_measure
def test_a_category_matches_a_slow_loop(measure):
    one, other = logits(20, 5, seed=0), logits(20, 5, seed=1)
    found = divergence({"y": Categorical(one)}, {"y": Categorical(other)}, measure)
    assert torch.allclose(found, slow_rows(measure, one.softmax(-1), other.softmax(-1)), atol=1e-5)


@each_measure
def test_a_bernoulli_matches_a_slow_loop(measure):
    one, other = logits(20, seed=0), logits(20, seed=1)
    p, q = (torch.stack([1 - x.sigmoid(), x.sigmoid()], -1) for x in (one, other))
    found = divergence({"y": Bernoulli(one)}, {"y": Bernoulli(other)}, measure)
    assert torch.allclose(found, slow_rows(measure, p, q), atol=1e-5)


def test_kl_matches_torchs_own():
    one, other = logits(20, 5, seed=0), logits(20, 5, seed=1)
    expected = d.kl_divergence(d.Categorical(logits=one), d.Categorical(logits=other))
    assert torch.allclose(divergence({"y": Categorical(one)}, {"y": Categorical(other)}), expected, atol=1e-5)
    expected = d.kl_divergence(d.Bernoulli(logits=one), d.Bernoulli(logits=other)).sum(1)
    assert torch.allclose(divergence({"y": Bernoulli(one)}, {"y": Bernoulli(other)}), expected, atol=1e-5)


@each_measure
def test_positions_and_heads_are_summed(measure):
    one = {"start": Categorical(logits(4, 6, seed=0)), "tags": Bernoulli(logits(4, 2, 3, seed=1))}
    other = {"start": Categorical(logits(4, 6, seed=2)), "tags": Bernoulli(logits(4, 2, 3, seed=3))}
    parts = [divergence({"start": one["start"]}, {"start": other["start"]}, measure)]
    for i in range(2):
        for j in range(3):
            pair = ({"x": Bernoulli(head["tags"].raw[:, i, j])} for head in (one, other))
            parts.append(divergence(*pair, measure))
    assert torch.allclose(divergence(one, other, measure), torch.stack(parts).sum(0), atol=1e-5)


@each_measure
def test_impossible_categories_cost_nothing_where_both_rule_them_out(measure):
    one, other = logits(10, 3, seed=0), logits(10, 3, seed=1)
    ruled_out = torch.full((10, 2), -INF)
    small = divergence({"y": Categorical(one)}, {"y": Categorical(other)}, measure)
    heads = [Categorical(torch.cat([x, ruled_out], 1)) for x in (one, other)]
    assert torch.allclose(divergence({"y": heads[0]}, {"y": heads[1]}, measure), small, atol=1e-6)


@each_measure
def test_a_category_only_one_rules_out_matches_a_slow_loop(measure):
    one, other = torch.tensor([[0.3, -INF, 1.0]] * 2), torch.tensor([[0.1, 0.2, 0.3], [0.5, -INF, -INF]])
    expected = slow_rows(measure, one.softmax(-1), other.softmax(-1))
    found = divergence({"y": Categorical(one)}, {"y": Categorical(other)}, measure)
    assert torch.allclose(found, expected, atol=1e-6)
    back = divergence({"y": Categorical(other)}, {"y": Categorical(one)}, measure)
    assert torch.allclose(back, slow_rows(measure, other.softmax(-1), one.softmax(-1)), atol=1e-6)


@each_measure
def test_gradients_are_finite_where_categories_are_impossible(measure):
    raw = torch.tensor([[0.3, -INF, 1.0, -0.5]], requires_grad=True)
    original = Categorical(torch.tensor([[1.0, -INF, 0.0, 2.0]]))
    divergence({"y": original}, {"y": Categorical(raw)}, measure).sum().backward()
    assert bool(raw.grad.isfinite().all()) and bool((raw.grad[0, [0, 2, 3]] != 0).all())


@each_measure
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_a_prediction_is_at_no_distance_from_itself(measure, scale):
    same = {"y": Categorical(scale * logits(50, 7, seed=0)), "z": Bernoulli(scale * logits(50, seed=1))}
    assert torch.allclose(divergence(same, same, measure), torch.zeros(50), atol=1e-6)


def test_a_value_is_at_no_distance_from_itself():
    same = {"y": Value(logits(50, 2, seed=0))}
    assert not bool(divergence(same, same, "squared-error").any())


@each_measure
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_no_divergence_is_negative_and_bounds_hold(measure, scale):
    one, other = scale * logits(200, 4, seed=0), scale * logits(200, 4, seed=1)
    found = divergence({"y": Categorical(one)}, {"y": Categorical(other)}, measure)
    most = {"kl": INF, "decision": INF, "js": math.log(2), "tv": 1}[measure]
    assert bool((found >= -1e-6).all()) and bool((found <= most + 1e-6).all())


@pytest.mark.parametrize(("measure", "most"), [("js", math.log(2)), ("tv", 1.0)])
def test_opposite_certainties_are_as_far_apart_as_can_be(measure, most):
    yes, no = Bernoulli(torch.tensor([200.0])), Bernoulli(torch.tensor([-200.0]))
    assert float(divergence({"y": yes}, {"y": no}, measure)) == pytest.approx(most)


@pytest.mark.parametrize("measure", [js, tv])
def test_some_measures_are_symmetric(measure):
    one, other = logits(20, 5, seed=0).log_softmax(-1), logits(20, 5, seed=1).log_softmax(-1)
    assert torch.allclose(measure(one, other), measure(other, one), atol=1e-6)


@pytest.mark.parametrize("measure", [kl, js, tv, decision])
def test_gradients_of_distributions_are_right(measure):
    pair = [logits(3, 4, seed=s).double().requires_grad_(True) for s in (0, 1)]
    assert gradcheck(lambda one, other: measure(one.log_softmax(-1), other.log_softmax(-1)), pair)


def test_gradients_of_values_are_right():
    assert gradcheck(squared_error, [logits(3, 4, seed=s).double().requires_grad_(True) for s in (0, 1)])


def test_values_are_compared_by_their_squared_difference():
    one, other = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.5, 2.0], [1.0, 7.0]])
    assert divergence({"y": Value(one)}, {"y": Value(other)}, "squared-error").tolist() == [0.25, 13.0]


@each_measure
def test_a_value_is_compared_by_its_squared_error_whatever_the_measure(measure):
    one, other = ({"price": Value(torch.tensor(prices))} for prices in ([1.0, 2.0], [1.5, 5.0]))
    assert divergence(one, other, measure).tolist() == [0.25, 9.0]


@each_measure
def test_a_value_beside_a_category_adds_its_squared_error(measure):
    one, other = Categorical(logits(4, 3, seed=0)), Categorical(logits(4, 3, seed=1))
    alone = divergence({"y": one}, {"y": other}, measure)
    both = divergence({"y": one, "x": Value(torch.zeros(4))}, {"y": other, "x": Value(torch.full((4,), 2.0))}, measure)
    assert torch.allclose(both, alone + 4)


@pytest.mark.parametrize("head", [Categorical(torch.zeros(2, 3)), Bernoulli(torch.zeros(2))])
def test_a_distribution_has_no_squared_error(head):
    with pytest.raises(
        SettingError, match="output 'label' is a distribution: use divergence kl, js, tv or decision, not"
    ):
        divergence({"label": head}, {"label": head}, "squared-error")


def test_what_is_said_beside_the_decision_costs_nothing():
    one, other = (
        torch.tensor([[0.6, 0.3, 0.1]] * 3).log(),
        torch.tensor([[0.6, 0, 0.4], [0.9, 0.1, 0], [0.3, 0.6, 0.1]]),
    )
    found = divergence({"y": Categorical(one)}, {"y": Categorical(other.log())}, "decision")
    assert torch.allclose(found, torch.tensor([0.0, 0.0, math.log(2)]), atol=1e-6)


def test_an_unknown_measure_gets_the_nearest():
    with pytest.raises(UnknownNameError, match="no divergence named 'squared-eror'; did you mean 'squared-error'"):
        divergence({}, {}, "squared-eror")


def test_every_entry_of_the_table_exists():
    assert all(callable(room.DIVERGENCES.get(name)) for name in room.DIVERGENCES.names)


def test_agreement_is_the_share_of_decisions_that_stayed():
    one = {"y": Categorical(torch.tensor([[1.0, 0.0], [0.0, 1.0]])), "z": Bernoulli(torch.tensor([[1.0, -1.0]] * 2))}
    other = {"y": Categorical(torch.tensor([[2.0, 0.0], [1.0, 0.0]])), "z": Bernoulli(torch.tensor([[1.0, 1.0]] * 2))}
    assert agreement(one, other).tolist() == [0.75, 0.25]


def test_a_prediction_that_decides_nothing_agrees():
    assert agreement({"x": Value(torch.zeros(3))}, {"x": Value(torch.ones(3))}).tolist() == [1, 1, 1]


def test_a_value_beside_a_decision_changes_no_agreement():
    one = {"x": Value(torch.zeros(2)), "z": Bernoulli(torch.tensor([1.0, -1.0]))}
    other = {"x": Value(torch.ones(2)), "z": Bernoulli(torch.tensor([1.0, 1.0]))}
    assert agreement(one, other).tolist() == [1, 0]
