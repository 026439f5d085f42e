"""Mutual information by counting, k-means on clusters that are plain to see, and words with their states."""

import math
from collections import Counter

import pytest
import torch

from attentive_toys import make_corpus, make_model, make_task
from diffmask.attention.information import (
    InformationConfig,
    choose_words,
    cluster,
    gather_states,
    measure_information,
    mutual_information,
    nearest,
)
from diffmask.errors import DataError, SettingError
from diffmask.tasks.documents import Document

CORPUS = make_corpus(48)
TASK = make_task(CORPUS)
SMALL = {"count": 20, "clusters": 16, "batch_size": 16}


def test_mutual_information_is_counted_in_nats():
    first, second = torch.tensor([3, 3, 5, 5, 5, 9]), torch.tensor([0, 7, 7, 7, 0, 0])
    joint = Counter(zip(first.tolist(), second.tolist(), strict=True))
    a, b = Counter(first.tolist()), Counter(second.tolist())
    expected = sum(c / 6 * math.log(6 * c / (a[x] * b[y])) for (x, y), c in joint.items())
    assert mutual_information(first, second) == pytest.approx(expected)
    assert mutual_information(first, first) == pytest.approx(-sum(c / 6 * math.log(c / 6) for c in a.values()))


def test_independent_labels_have_far_too_much_of_it_and_shuffling_takes_it_off():
    draw = torch.Generator().manual_seed(0)
    first, second = torch.randint(200, (2, 3000), generator=draw)
    plain = mutual_information(first, second)
    shuffled = mutual_information(first, second[torch.randperm(3000, generator=draw)])
    assert plain > 1 and abs(plain - shuffled) < 0.05


def test_k_means_finds_clusters_that_are_plain_to_see():
    draw = torch.Generator().manual_seed(0)
    means = torch.eye(4) * 20
    truth = torch.randint(4, (600,), generator=draw)
    states = means[truth] + torch.randn(600, 4, generator=draw)
    # Eight centres for four clusters: with as many centres as clusters the start decides.
    found = nearest(states, cluster(states, InformationConfig(clusters=8, batch_size=50, passes=3)))
    assert mutual_information(truth, found) == pytest.approx(mutual_information(truth, truth), abs=0.02)


def test_fewer_states_than_clusters_are_all_centres():
    states = torch.tensor([[0.0], [1.0], [1.0]])
    centres = cluster(states, InformationConfig(clusters=10))
    assert sorted(centres.flatten().tolist()) == [0.0, 1.0]


def test_words_are_the_most_frequent_or_drawn_and_never_special():
    frequent = choose_words(TASK, CORPUS.train, InformationConfig(count=5))
    counts = Counter(number for document in CORPUS.train for number in TASK.numbers(document.text))
    least = min(counts[number] for number in frequent.tolist())
    rest = set(counts) - set(frequent.tolist()) - {2, 3}
    assert all(counts[number] <= least for number in rest)
    drawn = choose_words(TASK, CORPUS.train, InformationConfig(words="sampled", count=5))
    assert len(set(drawn.tolist())) == 5 and (drawn >= TASK.vocabulary.first_word).all()


def test_each_word_stands_beside_its_own_hidden_state():
    model = make_model(TASK, encoder="projection")
    words, states = gather_states(model, TASK, CORPUS.train, InformationConfig(**SMALL))
    expected = torch.tanh(model.layers[0].map(model.embedding(words)))
    assert torch.allclose(states, expected, atol=1e-6)
    few, _ = gather_states(model, TASK, CORPUS.train, InformationConfig(**SMALL, pairs=7))
    assert len(few) == 7


def test_hidden_states_that_know_only_their_word_keep_it_and_constant_ones_lose_it():
    config = InformationConfig(**{**SMALL, "clusters": 400})
    model = make_model(TASK, encoder="projection")
    whole = measure_information(model, TASK, CORPUS.train, config)
    words, _ = gather_states(model, TASK, CORPUS.train, config)
    assert whole.plain == pytest.approx(mutual_information(words, words), abs=1e-6)
    with torch.no_grad():
        model.layers[0].map.weight.zero_()
    assert measure_information(model, TASK, CORPUS.train, config).plain == pytest.approx(0, abs=1e-9)


def test_a_shared_codebook_needs_equal_widths():
    config = InformationConfig(**SMALL, codebook="shared")
    same = measure_information(make_model(TASK, join="residual"), TASK, CORPUS.train, config)
    assert same.pairs > 0 and same.corrected == same.plain - same.shuffled
    with pytest.raises(SettingError, match="a shared codebook compares hidden states of width 16"):
        measure_information(make_model(TASK, join="concat"), TASK, CORPUS.train, config)


def test_nothing_to_count_is_refused():
    with pytest.raises(DataError, match="none of these documents has a word"):
        measure_information(make_model(TASK), TASK, [Document("never seen", 0)])
    with pytest.raises(DataError, match="none of these documents has a word"):
        measure_information(make_model(TASK), TASK, [])
    with pytest.raises(SettingError, match="clusters of the mutual information must be at least 1, got 0"):
        InformationConfig(clusters=0)
