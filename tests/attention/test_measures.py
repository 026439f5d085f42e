"""Quality under other attention, and what single words answer, by counting."""

import math

import pytest
import torch

from attentive_toys import make_corpus, make_documents, make_model, make_task
from diffmask.attention import measures
from diffmask.attention.attacks import permuted_attention, uniform_attention
from diffmask.attention.evidence import Evidence, gather_evidence
from diffmask.attention.measures import measure_robustness, permutation_changes, word_probability
from diffmask.attention.quality import measure_quality

TASK = make_task(make_corpus(12))
FOUND = gather_evidence(make_model(TASK), TASK, make_documents(30, 4))


def test_quality_under_uniform_and_permuted_attention_is_that_of_the_answers():
    found = measure_robustness(FOUND, draws=4)
    uniform = FOUND.weigh(uniform_attention(FOUND))
    assert found.uniform == measure_quality(uniform.unsqueeze(1), FOUND.labels)
    drawn = FOUND.weigh(permuted_attention(FOUND, 4))
    f1 = sum(measure_quality(margin.unsqueeze(1), FOUND.labels).f1 for margin in drawn) / 4
    assert found.permuted.f1 == pytest.approx(f1)
    assert found.drop("permuted") == pytest.approx(found.own.f1 - f1)
    assert found.drop("uniform", "accuracy") == pytest.approx(found.own.accuracy - found.uniform.accuracy)


def test_the_change_under_permutation_is_the_median_over_draws(monkeypatch):
    monkeypatch.setattr(measures, "WEIGHTS", 1)
    found = permutation_changes(FOUND, draws=4)
    changes = (FOUND.weigh(permuted_attention(FOUND, 4)).sigmoid() - FOUND.probability).abs()
    middle = changes.sort(dim=0).values[1:3].mean(0)
    assert torch.allclose(found, middle)


def test_word_probability_averages_the_words_of_documents_answered_right():
    attended = torch.tensor([[True, True], [True, False], [True, True]])
    says = torch.tensor([[2.0, -1.0], [-3.0, 0.0], [1.0, 1.0]]).double()
    weights = torch.tensor([[0.9, 0.1], [1.0, 0.0], [0.5, 0.5]]).double()
    found = word_probability(Evidence(weights, says, says, attended, torch.tensor([1, 0, 0]), (0, 1, 2)))
    first = [1 / (1 + math.exp(-2)), 1 / (1 + math.exp(1))]
    second = 1 - 1 / (1 + math.exp(3))
    assert found.documents == 2  # the last is answered wrong
    assert found.macro == pytest.approx((sum(first) / 2 + second) / 2)
    assert found.micro == pytest.approx((sum(first) + second) / 3)
