"""Word vectors against counting and the exact factorisation."""

import math
from collections import Counter

import pytest
import torch

from diffmask.errors import DataError, SettingError
from diffmask.tasks.word_vectors import SIZE, VectorConfig, neighbours, positive_information, train_vectors
from diffmask.tasks.words import END, MASK, START, Vocabulary

ROWS = [[5, 6, 7, 5], [6, 7], [8], []]
TEXTS = ["red apple sweet", "green apple sour", "red car fast", "blue car fast", "sweet red apple", "fast blue car"] * 3
VOCABULARY = Vocabulary(TEXTS, 1, (START, END, MASK))


def count_pairs(rows, window):
    counts = Counter()
    for row in rows:
        for place, word in enumerate(row):
            for other in row[max(0, place - window) : place] + row[place + 1 : place + 1 + window]:
                counts[word, other] += 1
    return counts


@pytest.mark.parametrize("window", [1, 2, 5])
def test_neighbours_are_counted_within_texts_on_both_sides(window):
    table = neighbours(ROWS, 9, window).to_dense()
    expected = count_pairs(ROWS, window)
    assert all(table[a, b] == expected[a, b] for a in range(9) for b in range(9))


def test_information_is_the_log_of_how_much_more_often_than_by_chance():
    counts = count_pairs(ROWS, 2)
    total, word = sum(counts.values()), Counter()
    for (first, _), count in counts.items():
        word[first] += count
    smooth = {w: n**0.75 for w, n in word.items()}
    table = positive_information(neighbours(ROWS, 9, 2), 0.75).to_dense()
    for (a, b), count in counts.items():
        chance = (word[a] / total) * smooth[b] / sum(smooth.values())
        assert table[a, b].item() == pytest.approx(max(0.0, math.log(count / total / chance)), abs=1e-12)


def test_vectors_are_the_scaled_factor_of_the_exact_decomposition():
    words = len(VOCABULARY)
    rows = [VOCABULARY.numbers(text) for text in TEXTS]
    table = positive_information(neighbours(rows, words, 5), 0.75).to_dense()
    left, sizes, _ = torch.linalg.svd(table)
    exact = (left * sizes) @ left.T  # of vectors and their products alone is the sign free
    found = train_vectors(TEXTS, VOCABULARY, VectorConfig(width=words, rounds=8))[5:].double()
    products = found @ found.T
    scale = products.diag().sum() / exact[5:, 5:].diag().sum()
    assert torch.allclose(products / scale, exact[5:, 5:], atol=1e-4)


def test_vectors_have_the_size_asked_for_and_repeat_themselves():
    first, second = (train_vectors(TEXTS, VOCABULARY, VectorConfig(width=6)) for _ in range(2))
    assert torch.equal(first, second) and first.shape == (len(VOCABULARY), 6)
    assert first[5:].square().mean().sqrt().item() == pytest.approx(SIZE, rel=0.3)
    assert (first[0] == 0).all() and (first[1:5].abs().sum(1) > 0).all()


def test_more_columns_than_words_are_zero():
    vectors = train_vectors(TEXTS, VOCABULARY, VectorConfig(width=40))
    assert vectors.shape[1] == 40 and (vectors[5:, len(VOCABULARY) :] == 0).all()


def test_words_in_like_company_have_like_vectors():
    vectors = train_vectors(TEXTS, VOCABULARY, VectorConfig(width=4))
    sweet, sour, fast = (vectors[VOCABULARY.number[word]] for word in ("sweet", "sour", "fast"))
    assert torch.cosine_similarity(sweet, sour, 0) > torch.cosine_similarity(sweet, fast, 0)


def test_texts_without_neighbours_are_refused():
    with pytest.raises(DataError, match="need a corpus"):
        train_vectors(["apple", "car"], VOCABULARY)


def test_settings_out_of_range_are_refused():
    with pytest.raises(SettingError, match="window of word vectors must be at least 1, got 0"):
        VectorConfig(window=0)
    with pytest.raises(SettingError, match=r"smoothing in \(0, 1\]"):
        VectorConfig(smoothing=0.0)
