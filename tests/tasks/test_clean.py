"""Cleaning, on texts whose spaCy cut is known."""

import sys
from types import SimpleNamespace

import pytest

from diffmask.errors import DataError
from diffmask.tasks.clean import clean, clean_post, clean_review, clean_sentence, cut, spacy_cut

# How spaCy 3.8's English rules cut each text.
CUTS = {
    "i can't cannot it's": ["i", "ca", "n't", "can", "not", "it", "'s"],
    "the U.S. economy -- up 3.5%, e.g. oil": ["the", "U.S.", "economy", "--", "up", "3.5", "%", ",", "e.g.", "oil"],
    "We're gonna win... (really)": ["We", "'re", "gon", "na", "win", "...", "(", "really", ")"],
    "see http://www.nhl.com/scores or me@home.org": ["see", "http://www.nhl.com/scores", "or", "me@home.org"],
    "the 21st century": ["the", "21st", "century"],
}


@pytest.mark.parametrize("text", CUTS)
def test_common_texts_are_cut_as_spacy_cuts_them(text):
    assert cut(text) == CUTS[text]


def test_every_word_with_a_digit_becomes_one_word():
    assert clean("Up 12% in the 21st") == "up qqq % in the qqq"
    assert clean("Up 12%", numbers=False) == "up 12 %"


def test_white_space_of_any_kind_is_one_space():
    assert clean("a\n\n b\tc ") == "a b c"


def test_a_sentence_loses_its_marks_and_brackets_and_keeps_numbers():
    assert clean_sentence("-LRB- A 3-star film , is n't it ? -RRB-") == "a 3 star film is n t it"


def test_of_a_run_of_marks_only_one_that_touches_a_word_stays():
    assert clean_post("Well, it's 3-2 !!! Ok.") == "well it ' s qqq qqq ok ."


def test_a_review_is_cut_as_keras_does():
    assert clean_review("I can't -- <br />It's GOOD!") == "i can't br it's good"


def test_nothing_stays_nothing():
    assert clean("") == clean_post(" \n ") == clean_review("!!") == clean_sentence("...") == ""


def test_spacys_own_cut_is_used_if_it_is_there(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(DataError, match="pip install spacy"):
        spacy_cut()
    rules = SimpleNamespace(tokenizer=lambda text: [SimpleNamespace(text=word) for word in text.split("_")])
    monkeypatch.setitem(sys.modules, "spacy", SimpleNamespace(blank=lambda language: rules))
    assert clean("A_b 1", spacy_cut()) == "a qqq"
