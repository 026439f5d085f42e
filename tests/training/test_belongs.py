"""What a saved probe of a text model belongs to: it is loaded beside that, and beside nothing else."""

import json

import pytest
from torch import nn

import tiny_text
from diffmask.errors import StorageError
from diffmask.explaining.pretrained import from_pretrained
from diffmask.models.adapting import adapt
from diffmask.models.configuration import configuration_of, differences
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


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"num_attention_heads": 4}, "num_attention_heads was 2, is 4"),
        ({"hidden_act": "relu"}, "act was gelu, is relu"),
    ],
)
def test_the_same_weights_in_another_configuration_are_refused(saved, change, said):
    wanted = rf"on these weights in another configuration \(.*{said}\): load the model with the configuration"
    with pytest.raises(StorageError, match=wanted):
        from_pretrained(saved, make_model("bert", **change), make_tokenizer())


def test_what_changes_nothing_that_is_computed_is_no_other_configuration(saved):
    names = {"id2label": {0: "bad", 1: "fair", 2: "good"}, "label2id": {"bad": 0, "fair": 1, "good": 2}}
    other = make_model("bert", hidden_dropout_prob=0.3, attn_implementation="eager", use_cache=False, **names)
    other.config.name_or_path, other.config.transformers_version = "elsewhere/bert", "6.0"
    assert from_pretrained(saved, other, make_tokenizer())


def test_settings_that_came_or_went_with_a_version_are_not_compared():
    one, other = {"heads": 2, "norm": 1e-5}, {"heads": 2, "rope.theta": 10000.0}
    assert differences(one, other) == [] and differences(one, {"heads": 4}) == ["heads"]


def test_a_configuration_is_plain_data_and_a_model_may_have_none():
    found = configuration_of(make_model("llama"))
    assert found["rope_parameters.rope_theta"] == 10000.0 and json.loads(json.dumps(found)) == found
    assert configuration_of(nn.Linear(2, 2)) == {}


def test_a_probe_from_before_configurations_were_noted_is_taken_as_it_is(saved, tmp_path):
    for path in saved.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    forget(tmp_path, "configuration")
    assert from_pretrained(tmp_path, make_model("bert", hidden_act="relu"), make_tokenizer())
