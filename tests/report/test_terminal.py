import io
import json
import math

import pytest
import torch
from rich.cells import cell_len
from rich.console import Console

from diffmask.explanation import Explanation, Verification
from diffmask.report.plain import answer, pieces, printable, record, short_names
from diffmask.report.terminal import View, blocks, legend, tokens

UNITS = ("a", "fun", "##ny", "film", ".")
KEEP = [[0.9, 0.9, 0.9, 0.9, 0.1], [0.1, 0.9, 0.2, 0.3, 0.1]]


def explained(units=UNITS, keep=KEEP, divergence=0.02, masked=1, depth=1, **changes):
    scores = torch.tensor(keep).log()
    checked = Verification(divergence, 0.1, "kl", {"label": 1}, {"label": masked})
    settings = {"verification": checked, "info": {"labels": ["negative", "positive"]}, **changes}
    depths = tuple(f"bert.layer.{i}" for i in range(len(keep)))
    return Explanation(tuple(units), depths, scores, depth, scores[depth] > math.log(0.5), **settings)


def shown(explanation, width=80):
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)
    console.print(View(explanation))
    return console.file.getvalue()


def test_prediction_and_check_stand_on_top():
    lines = shown(explained()).splitlines()
    assert lines[0].split() == ["prediction", "positive"]
    assert "✓ holds: divergence 0.0200 ≤ margin 0.1 (kl), same prediction" in lines[1]
    assert "1 of 5 units at depth 1, bert.layer.1" in lines[2]


def test_a_broken_margin_says_so_and_what_the_prediction_became():
    said = shown(explained(divergence=0.5, masked=0), width=200)
    assert "✗ breaks the margin: divergence 0.5000 > margin 0.1 (kl), the prediction becomes negative" in said


def test_without_a_verification_nothing_is_claimed():
    said = shown(explained(verification=None))
    assert "not verified" in said and "holds" not in said


def test_certified_explanations_say_so():
    assert "✓ certified, holds" in shown(explained(certified=True))


def test_each_depth_shows_what_it_keeps_and_dots_for_the_rest():
    lines = shown(explained()).splitlines()[-2:]
    assert lines[0].split("%")[1].strip() == "a funny film ·"
    assert lines[1].split("%")[1].strip() == "· fun·· ···· ·"
    assert lines[0].startswith(" 0") and lines[1].startswith("▸1")


def test_a_repaired_set_is_what_the_chosen_depth_shows():
    explanation = explained()
    repaired = Explanation(
        explanation.units, explanation.depths, explanation.scores, 1, torch.tensor([False, True, True, False, False])
    )
    assert shown(repaired).splitlines()[-1].split("%")[1].strip() == "· funny ···· ·"


def test_pieces_of_a_word_are_joined_and_colour_is_never_alone():
    line = tokens(explained())
    marks = {line.plain[span.start : span.end]: span.style for span in line.spans}
    assert line.plain == "a funny film ."
    assert marks["fun"].bold and not marks["fun"].strike
    assert marks["ny"].strike and marks["film"].strike and not marks["film"].bold


@pytest.mark.parametrize(
    "hostile", ["[red]x[/red]", "<b>", "[/]", "[link=http://x]y[/link]", "\\[b]", "{0}", ":smile:"]
)
def test_a_text_is_never_read_as_markup(hostile):
    said = shown(explained([hostile, "is"], [[0.9, 0.9]], depth=0), width=120)
    assert said.count(hostile) == 2  # among the tokens, and at its depth


def test_a_text_cannot_move_the_cursor_or_turn_around():
    said = shown(explained(["\x1b[2J", "a\u202eb", "x\ty\n"], [[0.9, 0.9, 0.9]], depth=0), width=120)
    assert "\x1b" not in said and "\u202e" not in said and "�[2J a�b x y" in said


@pytest.mark.parametrize("width", [10, 24, 40, 61, 80])
def test_no_line_is_wider_than_the_terminal(width):
    units = ["enjoy", "##able", "漢字", "x" * 70, "a", "long", "text", "goes", "on"]
    keep = [[0.9 if i % 2 else 0.1 for i in range(len(units))]] * 2
    said = shown(explained(units, keep), width=width)
    assert max(map(cell_len, said.splitlines())) <= width and "on" in said


@pytest.mark.parametrize("room", [3, 7, 11, 40])
def test_blocks_hold_every_unit_once_in_order(room):
    shown_pieces = pieces(["un", "##believ", "##able", "and", "fun", "##ny", "."])
    units = [unit for block in blocks(shown_pieces, room) for unit in block]
    assert units == list(range(7))


def test_blocks_break_between_words_where_they_can():
    assert [list(block) for block in blocks(pieces(["a", "fun", "##ny", "film"]), 6)] == [[0], [1, 2], [3]]


def test_the_legend_names_every_shade():
    assert all(f"{low}–{low + 20} %" in legend().plain for low in (0, 20, 40, 60, 80))


def test_pieces_know_both_ways_of_writing_words():
    assert [(p.text, p.joined) for p in pieces(["ĠA", "Ġfun", "ny"])] == [("A", False), ("fun", False), ("ny", True)]
    assert [(p.text, p.joined) for p in pieces(["##", "##x"])] == [("##", False), ("x", True)]


def test_what_cannot_be_seen_is_shown_as_something():
    assert printable(" ") == "␣" and printable("a\x00") == "a�"


def test_short_names_leave_out_what_all_share():
    assert short_names(["bert.a.x", "bert.a.y"]) == ["x", "y"]
    assert short_names(["a", "a.b"]) == ["a", "a.b"] and short_names(["a.b"]) == ["a.b"]


@pytest.mark.parametrize(
    "decided, labels, said",
    [
        ({"label": 1}, ["no", "yes"], "yes"),
        ({"label": 2}, ["no", "yes"], "label 2"),
        ({"label": 0}, None, "label 0"),
        ({"start": 1, "end": 4}, None, "start 1, end 4"),
        ({"start": 1, "end": 4}, {"1:4": "a\tfast movie"}, "a fast movie (start 1, end 4)"),
        ({"start": 1, "end": 3}, {"1:4": "a fast movie"}, "start 1, end 3"),
        ({"labels": [0, 1, 0]}, ["no", "yes"], "no, yes, no"),
        ({"labels": [0, 2]}, ["no", "yes"], "labels [0, 2]"),
        ({"labels": [True, False, True]}, ["fast", "dull", "fun"], "fast, fun"),
        ({"labels": [False, False]}, ["fast", "dull"], "none of fast, dull"),
        ({"labels": [True]}, ["fast", "dull"], "labels True"),
        ({"labels": [True, False]}, None, "labels [True, False]"),
        ({"next token": 7}, {"7": " movie"}, "movie"),
        ({"continuation": [7, 9]}, {"7": " movie", "9": "\n"}, "movie, ␣"),
        ({"next token": 8}, {"7": " movie"}, "next token 8"),
        ({}, None, "a value"),
    ],
)
def test_answers_have_names_where_they_are_known(decided, labels, said):
    assert answer(decided, labels) == said


def test_a_record_is_json_with_probabilities():
    found = json.loads(json.dumps(record(explained(divergence=math.inf), "a funny film."), allow_nan=False))
    assert found["scores"] == KEEP and found["kept"] == [False, True, False, False, False]
    assert found["prediction"] == "positive" and found["verification"]["divergence"] is None
    assert found["verification"]["within_margin"] is False
