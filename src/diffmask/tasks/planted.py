"""Texts with a planted shortcut: neutral sentences whose label is decided by one or two words put into them.

The three kinds of Bastings et al. (2022): a single word; a word that counts only in the company of another; two words
that count only in one order. Label 1 means that the shortcut is there. A blank stands for a word that is gone, and
labels are made after words are blanked, so that a model learns that a blank says nothing.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

Kind = Literal["single", "context", "ordered"]
KINDS = get_args(Kind)
BLANK = "[MASK]"
CANDIDATES = ("lantern", "violet", "harbour", "marble", "willow", "copper")  # two become the shortcut, the rest nouns
WORDS = {
    "the": ("the", "a", "this", "that"),
    "big": ("old", "small", "round", "quiet", "green", "heavy", "plain", "wide"),
    "cat": ("table", "river", "window", "house", "letter", "garden", "chair", "road", "coat", "clock"),
    "sees": ("holds", "meets", "follows", "covers", "leaves", "finds"),
    "on": ("near", "under", "behind", "beside", "above"),
    "often": ("often", "slowly", "again", "today"),
}
PHRASES = ("the cat sees the cat", "the big cat sees the cat on the cat", "the cat often sees the big cat on the cat")


@dataclass(frozen=True)
class Shortcut:
    """What decides: the word `first`; or it together with `second`; or it somewhere before `second`."""

    kind: Kind
    first: str
    second: str

    @property
    def words(self) -> tuple[str, ...]:
        """The words that matter where the shortcut is there."""
        return (self.first,) if self.kind == "single" else (self.first, self.second)

    def label(self, words: Sequence[str]) -> int:
        """Return 1 where the shortcut is there."""
        if not all(word in words for word in self.words):
            return 0
        return int(self.kind != "ordered" or words.index(self.first) < words.index(self.second))

    def units(self, words: Sequence[str]) -> list[int]:
        """Return the places of the words that matter in a text with the shortcut."""
        return [place for place, word in enumerate(words) if word in self.words]


@dataclass(frozen=True)
class Planted:
    """A text with its label."""

    words: tuple[str, ...]
    label: int

    @property
    def text(self) -> str:
        return " ".join(self.words)


def draw_shortcut(kind: Kind, seed: int) -> Shortcut:
    """Draw which two words a seed's shortcut is made of."""
    return Shortcut(kind, *random.Random(f"shortcut {kind} {seed}").sample(CANDIDATES, 2))


def vocabulary() -> list[str]:
    """Return every word there is, whatever the shortcut."""
    return [*dict.fromkeys([*(word for group in WORDS.values() for word in group), *CANDIDATES])]


def neutral_nouns(shortcut: Shortcut) -> list[str]:
    """Return the nouns that say nothing: all but the shortcut's two words."""
    return [*WORDS["cat"], *(word for word in CANDIDATES if word not in (shortcut.first, shortcut.second))]


def draw_texts(shortcut: Shortcut, count: int, seed: int, blanks: bool) -> list[Planted]:
    """Draw texts, half of them with the shortcut before words are blanked; `blanks` blanks words of every second."""
    dice = random.Random(f"texts {seed}")
    drawn = [_draw(shortcut, dice) for _ in range(count)]
    return [_blanked(text, shortcut, dice) if blanks and dice.random() < 0.5 else text for text in drawn]


def _draw(shortcut: Shortcut, dice: random.Random) -> Planted:
    words = _sentence(shortcut, dice)
    planted = _present(shortcut, dice) if dice.random() < 0.5 else _absent(shortcut, dice)
    places = sorted(dice.sample(range(len(words) + 1), len(planted)))
    for place, word in reversed([*zip(places, planted, strict=True)]):
        words.insert(place, word)
    return Planted(tuple(words), shortcut.label(words))


def _sentence(shortcut: Shortcut, dice: random.Random) -> list[str]:
    choices = {**WORDS, "cat": tuple(neutral_nouns(shortcut))}
    return [dice.choice(choices[slot]) for slot in dice.choice(PHRASES).split()]


def _present(shortcut: Shortcut, dice: random.Random) -> list[str]:
    """Return the words to plant, in their order, such that the shortcut is there; a lone word may have company."""
    both = [shortcut.first, shortcut.second]
    if shortcut.kind == "single" and dice.random() < 0.5:
        return [shortcut.first]
    return both if shortcut.kind == "ordered" or dice.random() < 0.5 else both[::-1]


def _absent(shortcut: Shortcut, dice: random.Random) -> list[str]:
    """Return words to plant that are nearly the shortcut, but not."""
    first, second = shortcut.first, shortcut.second
    if shortcut.kind == "single":
        return dice.choice(([], [second]))
    if shortcut.kind == "context":
        return dice.choice(([], [first], [second]))
    return dice.choice(([second, first], [second, first], [first], [second], []))


def _blanked(text: Planted, shortcut: Shortcut, dice: random.Random) -> Planted:
    share = dice.random()
    words = tuple(BLANK if dice.random() < share else word for word in text.words)
    return replace(text, words=words, label=shortcut.label(words))


@dataclass(frozen=True)
class Edit:
    """A text changed in one way, and whether its label must change with it."""

    name: str
    words: tuple[str, ...]
    flips: bool


def edits(text: Planted, shortcut: Shortcut, dice: random.Random) -> list[Edit]:
    """Change a text that has the shortcut: in every way that destroys it, and in some that do not."""
    words, units = text.words, shortcut.units(text.words)
    others = [place for place in range(len(words)) if place not in units]
    nouns = neutral_nouns(shortcut)
    found = []
    for place in units:
        found.append(Edit("shortcut word replaced", _with(words, {place: dice.choice(nouns)}), True))
        found.append(Edit("shortcut word blanked", _with(words, {place: BLANK}), True))
        found.append(Edit("shortcut word removed", words[:place] + words[place + 1 :], True))
    if len(units) == 2:
        swapped = _with(words, {units[0]: words[units[1]], units[1]: words[units[0]]})
        found.append(Edit("shortcut words swapped", swapped, shortcut.kind == "ordered"))
    one, two = dice.sample(others, 2)
    found.append(Edit("other word replaced", _with(words, {one: dice.choice(nouns)}), False))
    found.append(Edit("other word blanked", _with(words, {one: BLANK}), False))
    found.append(Edit("other words swapped", _with(words, {one: words[two], two: words[one]}), False))
    found.append(Edit("all others blanked", _with(words, dict.fromkeys(others, BLANK)), False))
    return found


def insertion(text: Planted, shortcut: Shortcut, dice: random.Random) -> Edit:
    """Put the shortcut into a text that has none of its words."""
    words = list(text.words)
    places = sorted(dice.sample(range(len(words) + 1), len(shortcut.words)))
    for place, word in reversed([*zip(places, shortcut.words, strict=True)]):
        words.insert(place, word)
    return Edit("shortcut inserted", tuple(words), True)


def _with(words: tuple[str, ...], changes: dict[int, str]) -> tuple[str, ...]:
    return tuple(changes.get(place, word) for place, word in enumerate(words))
