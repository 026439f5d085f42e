"""Word vectors of several corpora together: trained once, looked up by each."""

import torch

from attentive_toys import make_corpus
from diffmask.studies import vector_pool
from diffmask.studies.vector_pool import make_pool, pooled_vectors
from diffmask.tasks.words import PADDING


def test_each_corpus_finds_its_words_in_the_pool(tmp_path):
    first, second = make_corpus(48), make_corpus(24)
    path = make_pool([first, second], tmp_path / "vectors.safetensors", 8)
    one, other = (pooled_vectors(path, corpus.vocabulary()) for corpus in (first, second))
    assert one.shape == (len(first.vocabulary()), 8) and not one[PADDING].any()
    for word, number in second.vocabulary().number.items():
        assert torch.equal(other[number], one[first.vocabulary().number[word]])


def test_what_is_trained_is_not_trained_again_unless_the_corpora_change(tmp_path, monkeypatch):
    path, trained = tmp_path / "vectors.safetensors", []
    train = vector_pool.train_vectors
    monkeypatch.setattr(vector_pool, "train_vectors", lambda *given: trained.append(1) or train(*given))
    for count in (48, 48, 24):
        make_pool([make_corpus(count)], path, 8)
    assert len(trained) == 2
