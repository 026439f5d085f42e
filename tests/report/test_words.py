"""Words are kept as their pieces are, and a check is not carried over to what was not run."""

import math
from dataclasses import replace

import pytest
import torch

from diffmask.errors import DiffMaskError
from diffmask.report.plain import kept_at, short_names, split_units
from diffmask.report.words import words
from page_samples import explained

PIECES = "un ##forget ##table film en ##joyed"


def pieced(kept: list[bool]):
    return explained(PIECES, kept=torch.tensor(kept), scores=torch.tensor([[0.6, 0.2, 0.9, 0.4, 0.3, 0.3]] * 3).log())


@pytest.mark.parametrize(
    ("units", "merged"),
    [
        (("un", "##do", "it", "##"), ("undo", "it", "##")),
        (("Ġun", "do", "Ġit", "."), ("undo", "it.")),
        (("<s>", "▁un", "do", "▁it", "</s>"), ("<s>", "undo", "it", "</s>")),
        (("ĠcafÃ©", "ĠðŁĺ", "Ģ", "!", "Ċ"), ("café", "😀!\n")),
        (("[CLS]", "a", ",", "b"), ("[CLS]", "a", ",", "b")),
    ],
)
def test_pieces_join_as_their_tokenizer_wrote_them(units, merged):
    chances = torch.full((3, len(units)), 0.2)
    found = explained(units=units, scores=chances.log(), kept=torch.zeros(len(units), dtype=torch.bool)).words()
    assert found.units == merged


def test_a_word_is_kept_if_a_piece_is_and_scored_by_its_highest():
    found = words(pieced([True, False, True, False, False, False]))
    assert found.units == ("unforgettable", "film", "enjoyed") and found.kept_units == ("unforgettable",)
    assert found.scores.exp()[0].tolist() == pytest.approx([0.9, 0.4, 0.3])


def test_the_order_a_set_was_cut_from_is_that_of_words_too():
    explanation = replace(pieced([True] * 3 + [False] * 3), info={"order": [0.1, 0.7, 0.2, 0.4, 0.6, 0.5]})
    assert words(explanation).info["order"] == [0.7, 0.4, 0.6]


def test_at_every_depth_a_word_is_kept_exactly_where_one_of_its_pieces_is():
    explanation = explained(PIECES)
    found = explanation.words()
    for depth in range(3):
        pieces = kept_at(explanation, depth)
        assert kept_at(found, depth) == [any(pieces[:3]), pieces[3], any(pieces[4:])]


def test_a_check_stays_where_words_are_kept_whole_and_goes_where_they_are_not():
    whole, part = pieced([True] * 3 + [False] * 3).words(), pieced([True] + [False] * 5).words()
    assert whole.verified and not part.verified and part.verification is None
    assert math.isclose(part.info["verified_pieces"]["divergence"], 0.05)


def test_units_that_are_words_already_stay_as_they_are():
    explanation = explained()
    assert explanation.words() is explanation


def test_a_bare_number_is_no_name_of_a_depth():
    assert short_names(["vit.layers.0", "vit.layers.1"]) == ["layers.0", "layers.1"]
    assert short_names(["a.embed", "a.layer.0"]) == ["embed", "layer.0"]


def test_a_single_unit_is_not_joined_to_nothing():
    assert split_units(["##s"]) == [("s", False)]


def test_a_data_frame_has_a_row_per_unit_and_a_column_per_depth():
    frame = explained().to_dataframe()
    assert list(frame.columns) == ["unit", "kept", "net.embed", "net.block.0", "net.block.1"] and len(frame) == 5
    assert frame[frame.kept].unit.tolist() == ["A"] and frame["net.block.1"][0] == pytest.approx(0.95)


def test_without_pandas_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(DiffMaskError, match="pip install pandas"):
        explained().to_dataframe()
