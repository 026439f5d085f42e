"""What a saved probe of a text model belongs to: it is loaded beside that, and beside nothing else."""

import pytest

import tiny_text
from diffmask.errors import StorageError
from diffmask.explaining.pretrained import from_pretrained
from diffmask.models.adapting import adapt
from diffmask.models.fingerprint import vocabulary_of
from diffmask.storage import load_tensors, save_tensors
from diffmask.tasks.text import TextClassification
from diffmask.training.fit import fit
from diffmask.training.pretrained import PROBE
from diffmask.training.saved import KIND
from saved_models import short
from tiny_text import PIECES, TEXTS, make_model, make_tokenizer


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A probe of the tiny BERT."""
    path, tokenizer = tmp_path_factory.mktemp("run"), make_tokenizer()
    task = TextClassification(tokenizer, TEXTS * 3, TEXTS)
    fit(adapt(make_model("bert"), tokenizer), task, short()).save_pretrained(path)
    return path


def forget(saved, name):
    """Save a probe as it was saved before something was noted about it."""
    tensors, info = load_tensors(saved / PROBE, KIND)
    save_tensors(saved / PROBE, KIND, tensors, {key: value for key, value in info.items() if key != name})


@pytest.fixture
def shuffled(monkeypatch):
    """A tokenizer of the same size that gives its tokens other numbers."""
    monkeypatch.setattr(tiny_text, "PIECES", PIECES[:4] + PIECES[4:][::-1])
    return make_tokenizer()


def test_a_tokenizer_of_another_vocabulary_is_refused_though_it_is_as_large(saved, shuffled):
    with pytest.raises(StorageError, match=r"with a tokenizer of another vocabulary .*: load the tokenizer that was"):
        from_pretrained(saved, make_model("bert"), shuffled)


def test_its_own_vocabulary_is_known_again(saved):
    assert from_pretrained(saved, make_model("bert"), make_tokenizer())


def test_a_vocabulary_is_known_by_its_numbers_and_not_by_its_order():
    class Words:
        def __init__(self, words):
            self.words = words

        def get_vocab(self):
            return self.words

    assert vocabulary_of(Words({"a": 0, "b": 1})) == vocabulary_of(Words({"b": 1, "a": 0}))
    assert vocabulary_of(Words({"a": 0, "b": 1})) != vocabulary_of(Words({"a": 1, "b": 0}))
    assert vocabulary_of(object()) is None


def test_a_probe_from_before_vocabularies_were_noted_is_taken_as_it_is(saved, shuffled, tmp_path):
    for path in saved.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    forget(tmp_path, "vocabulary")
    assert from_pretrained(tmp_path, make_model("bert"), shuffled)
