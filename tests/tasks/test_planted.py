"""Planted texts have the label their words say, and edits do to it what they claim."""

import random

import pytest

from diffmask.tasks.planted import (
    BLANK,
    KINDS,
    Shortcut,
    draw_shortcut,
    draw_texts,
    edits,
    insertion,
    neutral_nouns,
    vocabulary,
)

kinds = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.parametrize(
    ("kind", "text", "label"),
    [
        ("single", "the zig sees", 1),
        ("single", "the zag sees", 0),
        ("context", "zag the zig", 1),
        ("context", "zig the zig", 0),
        ("ordered", "zig the zag", 1),
        ("ordered", "zag the zig", 0),
        ("ordered", "the zag", 0),
    ],
)
def test_the_label_follows_the_shortcut_alone(kind, text, label):
    assert Shortcut(kind, "zig", "zag").label(text.split()) == label


@kinds
def test_the_labels_of_drawn_texts_are_those_of_their_words(kind):
    shortcut = draw_shortcut(kind, 0)
    for blanks in (False, True):
        texts = draw_texts(shortcut, 300, 0, blanks)
        assert all(text.label == shortcut.label(text.words) for text in texts)
        assert any(BLANK in text.words for text in texts) == blanks
        assert 0.25 < sum(text.label for text in texts) / len(texts) < 0.65


@kinds
def test_nothing_but_the_shortcut_tells_the_labels_apart(kind):
    """Each neutral word is about as frequent with one label as with the other."""
    shortcut = draw_shortcut(kind, 1)
    texts = draw_texts(shortcut, 6000, 1, blanks=False)
    counts = {label: sum(text.label == label for text in texts) for label in (0, 1)}
    for word in set(vocabulary()) - {shortcut.first, shortcut.second}:
        shares = [sum(word in t.words for t in texts if t.label == label) / counts[label] for label in (0, 1)]
        assert abs(shares[0] - shares[1]) < 0.05


@kinds
def test_a_shortcut_alone_is_no_giveaway_where_it_takes_two(kind):
    shortcut = draw_shortcut(kind, 0)
    negatives = [text for text in draw_texts(shortcut, 500, 0, blanks=False) if not text.label]
    for word in (shortcut.first, shortcut.second)[kind == "single" :]:
        assert sum(word in text.words for text in negatives) > 0.2 * len(negatives)


@kinds
def test_an_edit_flips_the_label_if_and_only_if_it_says_so(kind):
    shortcut, dice = draw_shortcut(kind, 2), random.Random(0)
    for text in draw_texts(shortcut, 200, 2, blanks=False):
        if text.label:
            made = edits(text, shortcut, dice)
            assert all((shortcut.label(edit.words) != 1) == edit.flips for edit in made)
            assert {edit.flips for edit in made} == {True, False}
        elif not {shortcut.first, shortcut.second} & set(text.words):
            assert shortcut.label(insertion(text, shortcut, dice).words) == 1


@kinds
def test_the_units_that_matter_are_those_whose_loss_flips_the_label(kind):
    shortcut = draw_shortcut(kind, 3)
    for text in draw_texts(shortcut, 100, 3, blanks=False):
        if text.label:
            gone = [[BLANK if i == place else w for i, w in enumerate(text.words)] for place in range(len(text.words))]
            flips = [place for place, words in enumerate(gone) if shortcut.label(words) == 0]
            assert flips == shortcut.units(text.words)


def test_every_seed_has_its_own_shortcut_and_texts_and_draws_them_again():
    assert len({draw_shortcut("single", seed).first for seed in range(12)}) > 2
    shortcut = draw_shortcut("single", 0)
    assert draw_texts(shortcut, 20, 0, True) == draw_texts(shortcut, 20, 0, True) != draw_texts(shortcut, 20, 1, True)
    assert not {shortcut.first, shortcut.second} & set(neutral_nouns(shortcut))
