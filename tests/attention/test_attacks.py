"""Attacks on attention: permutations, and adversaries against random corners, search and brute force."""

import math
from itertools import combinations

import pytest
import torch

from attentive_toys import make_corpus, make_documents, make_model, make_task
from diffmask.attention import attacks
from diffmask.attention.attacks import (
    SearchConfig,
    exact_adversary,
    jensen_shannon,
    permuted_attention,
    search_adversary,
    uniform_attention,
)
from diffmask.attention.evidence import Evidence, gather_evidence
from diffmask.errors import SettingError

TASK = make_task(make_corpus(12))


def make_evidence(lengths=(6, 1, 2, 9, 5, 7), seed=0, sharp=1.0, spread=1.5):
    """Draw weights and what words say; some weights are exactly 0."""
    generator = torch.Generator().manual_seed(seed)
    shape = (len(lengths), max(lengths))
    attended = torch.arange(shape[1]) < torch.tensor(lengths).unsqueeze(1)
    scores = torch.randn(shape, generator=generator, dtype=torch.double) * sharp
    weights = torch.where(attended, scores, -torch.inf).softmax(1)
    weights = torch.where(weights < weights.amax(1, keepdim=True) / 8, 0, weights)
    says = torch.where(attended, torch.randn(shape, generator=generator, dtype=torch.double) * spread, 0)
    labels = torch.randint(2, (shape[0],), generator=generator)
    return Evidence(weights / weights.sum(1, keepdim=True), scores, says, attended, labels, tuple(range(shape[0])))


def slow_divergence(first, second):
    total = 0.0
    for p, q in zip(first.tolist(), second.tolist(), strict=True):
        m = (p + q) / 2
        total += sum(x * math.log(x / m) for x in (p, q) if x > 0) / 2
    return total


def test_divergence_is_in_nats_and_takes_zeros():
    found = make_evidence()
    other = uniform_attention(found)
    for row in range(len(found)):
        expected = slow_divergence(found.attention[row], other[row])
        assert float(jensen_shannon(found.attention, other)[row]) == pytest.approx(expected, abs=1e-12)
    apart = jensen_shannon(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]]))
    assert float(apart) == pytest.approx(math.log(2))


def test_the_slope_of_divergence_is_finite_at_weights_of_zero():
    logits = torch.zeros(1, 3, requires_grad=True)
    weights = logits.masked_fill(torch.tensor([[False, False, True]]), -1e30).softmax(-1)
    jensen_shannon(weights, torch.tensor([[1.0, 0.0, 0.0]])).sum().backward()
    assert logits.grad.isfinite().all() and logits.grad[0, 0] < 0 < logits.grad[0, 1]


def test_uniform_attention_weighs_words_alike_and_nothing_else():
    found = make_evidence()
    weights = uniform_attention(found)
    assert torch.allclose(weights.sum(1), torch.ones(6).double()) and (weights[~found.attended] == 0).all()


def test_a_permutation_deals_the_same_weights_out_to_the_words():
    found = make_evidence()
    drawn = permuted_attention(found, 300)
    for row in range(len(found)):
        words = found.attended[row]
        expected = found.attention[row][words].sort().values
        assert torch.equal(drawn[:, row][:, words].sort(dim=1).values, expected.expand(300, -1))
    assert (drawn[:, ~found.attended] == 0).all()
    mean = drawn.mean(0)[found.attended]
    assert torch.allclose(mean, uniform_attention(found)[found.attended], atol=0.12)


def test_permutations_do_not_depend_on_padding_order_or_mates():
    model, documents = make_model(TASK), make_documents(6, 3)
    together = permuted_attention(gather_evidence(model, TASK, documents), 3)
    for row in range(6):
        alone = permuted_attention(gather_evidence(model, TASK, documents[row : row + 1]), 3)
        assert torch.allclose(alone[:, 0], together[:, row, : alone.shape[2]], atol=1e-6)


def test_another_seed_deals_otherwise():
    found = make_evidence()
    assert not torch.equal(permuted_attention(found, 5, seed=0), permuted_attention(found, 5, seed=1))


def brute_force(found, row, tolerance):
    """Try every corner of the weights that hold the answer: single words, and pairs at both ends."""
    words = found.attended[row].nonzero().flatten().tolist()
    chance, best = float(found.probability[row]), 0.0
    ends = [math.log(p / (1 - p)) for p in (chance - tolerance, chance + tolerance) if 0 < p < 1]
    corners = [{i: 1.0} for i in words]
    for i, j in combinations(words, 2):
        a, b = float(found.says[row, i]), float(found.says[row, j])
        corners += [{i: (b - end) / (b - a), j: (end - a) / (b - a)} for end in ends if min(a, b) < end < max(a, b)]
    for corner in corners:
        weights = torch.zeros(found.attended.shape[1], dtype=torch.double)
        for place, share in corner.items():
            weights[place] = share
        if abs(float((weights * found.says[row]).sum().sigmoid()) - chance) <= tolerance + 1e-9:
            best = max(best, slow_divergence(weights, found.attention[row]))
    return best


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("tolerance", [0.01, 0.05, 0.4])
def test_the_exact_adversary_is_the_best_corner(seed, tolerance):
    found = make_evidence(seed=seed)
    exact = exact_adversary(found, tolerance)
    for row in range(len(found)):
        assert float(exact.divergence[row]) == pytest.approx(brute_force(found, row, tolerance), abs=1e-9)
    assert (exact.change <= tolerance + 1e-9).all()
    assert torch.allclose(exact.attention.sum(1), torch.ones(6).double())
    assert (exact.attention >= 0).all() and (exact.attention[~found.attended] == 0).all()


def test_no_random_weights_that_hold_the_answer_diverge_more():
    found = make_evidence(seed=7)
    best = exact_adversary(found, 0.05).divergence
    generator = torch.Generator().manual_seed(1)
    for power in (0.3, 1.0, 4.0, 20.0):
        noise = torch.rand(4000, *found.attended.shape, generator=generator, dtype=torch.double) ** power
        weights = torch.where(found.attended, noise, 0)
        weights = weights / weights.sum(-1, keepdim=True)
        held = (found.weigh(weights).sigmoid() - found.probability).abs() <= 0.05
        reached = torch.where(held, jensen_shannon(weights, found.attention.expand_as(weights)), 0)
        assert (reached.amax(0) <= best + 1e-9).all()


def test_the_search_never_beats_the_exact_adversary_and_comes_close_on_short_texts():
    found = make_evidence()
    exact, searched = exact_adversary(found, 0.05), search_adversary(found, SearchConfig(steps=300, learning_rate=0.05))
    assert (searched.divergence <= exact.divergence + 1e-9).all()
    assert (searched.change <= 0.05).all()
    assert searched.divergence.mean() > 0.6 * exact.divergence.mean()
    assert searched.divergence[1] == 0  # one word leaves no choice


def test_parts_of_the_documents_give_the_same(monkeypatch):
    found = make_evidence()
    expected = exact_adversary(found)
    monkeypatch.setattr(attacks, "PAIRS", 1)
    assert torch.equal(exact_adversary(found).attention, expected.attention)


def test_a_sure_answer_has_an_open_end():
    found = make_evidence(spread=30.0)
    assert exact_adversary(found).divergence.isfinite().all()


@pytest.mark.parametrize("attack", [lambda e: permuted_attention(e, 0), lambda e: exact_adversary(e, 1.5)])
def test_settings_that_mean_nothing_are_refused(attack):
    with pytest.raises(SettingError):
        attack(make_evidence())
