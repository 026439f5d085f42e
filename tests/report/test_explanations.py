import copy
import io

import pytest
from rich.console import Console

from diffmask.report import PICTURES
from diffmask.report.comparison import comparison, kept_words, ranked, sentences, verdict
from diffmask.report.explanations import heat_map, pictures

CHECK = {"divergence": 0.02, "within_margin": True, "same_prediction": True, "masked_prediction": "positive"}
EXPLANATION = {
    "text": "A [b]funny[/b] film for $5 or $6.",
    "units": ["a", "fun", "##ny", "film", "$", "5_{", "$"],
    "depths": ["bert.embeddings", "bert.layer.0"],
    "depth": 1,
    "scores": [[0.9, 0.9, 0.9, 0.4, 0.1, 0.1, 0.1], [0.1, 0.9, 0.8, 0.3, 0.1, 0.1, 0.1]],
    "kept": [False, True, True, False, False, False, False],
    "prediction": "positive",
    "verification": CHECK,
}
LINE = {"divergence": 0.02, "within_margin": 1, "same_prediction": 1, "gap": 0.0, "gap_error": 0.0, "time_ratio": 1.0}
RESULT = {
    "study": "demo",
    "margin": 0.1,
    "summary": {
        "sentences": 2,
        "verified": 1,
        "kept_by_depth": [0.4, 0.2],
        "methods": {
            "probe": LINE,
            "leave-one-out": {**LINE, "divergence": 0.01, "gap": -0.01, "gap_error": 0.001, "time_ratio": 3.0},
            "attention": {**LINE, "divergence": 0.03, "gap": 0.01, "gap_error": 0.01},
            "random": {**LINE, "divergence": None, "gap": None, "gap_error": None, "time_ratio": 0.0001},
            "gradient-input": {**LINE, "divergence": 0.5, "gap": 0.48, "gap_error": 0.1},
        },
    },
    "explanations": [
        EXPLANATION,
        {
            **EXPLANATION,
            "verification": {**CHECK, "divergence": None, "within_margin": False, "same_prediction": False},
        },
    ],
}


def printed(*renderables, width=100):
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)
    console.print(*renderables)
    return console.file.getvalue()


def test_every_picture_is_drawn(tmp_path):
    for name, figure in PICTURES.get("demo")(copy.deepcopy(RESULT)).items():
        figure.savefig(tmp_path / f"{name}.png")
    assert {path.stem for path in tmp_path.iterdir()} == {"sentence-1", "sentence-2", "depths", "rivals"}


def test_a_picture_can_be_read_without_colour():
    axis = heat_map(EXPLANATION).axes[0]
    written = [text.get_text() for text in axis.texts]
    assert written[:4] == ["90", "90", "90", "40"] and len(written) == 14
    assert len(axis.patches) == 4 + 5  # what is dropped is hatched: four units at depth 0, five at depth 1


def test_a_price_in_a_text_is_no_formula(tmp_path):
    figure = heat_map(EXPLANATION)
    figure.savefig(tmp_path / "x.png")  # "$5_{" would fail as a formula
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()][2:5] == ["-ny", "film", "$"]


def test_pictures_of_a_single_sentence_that_keeps_nothing_are_drawn():
    result = copy.deepcopy(RESULT)
    result["explanations"], result["summary"]["kept_by_depth"] = result["explanations"][:1], [0.0, 0.0]
    assert set(pictures(result)) == {"sentence-1", "depths", "rivals"}


def test_methods_stand_in_the_order_of_what_was_measured_not_of_whose_they_are():
    assert [name for name, _ in ranked(RESULT)] == ["leave-one-out", "probe", "attention", "gradient-input", "random"]


def test_the_table_shows_the_difference_with_its_error():
    said = printed(comparison(RESULT))
    assert "-0.010 ± 0.002" in said and "+0.010 ± 0.020" in said and "∞" in said and "<0.01×" in said


def test_the_verdict_names_losses_wins_and_what_cannot_be_told():
    said = verdict(RESULT)[1]
    assert "loses to leave-one-out and wins against gradient-input" in said
    assert "do not tell it from attention, random" in said


def test_sentences_are_shown_as_they_are_with_what_is_kept():
    said = printed(sentences(RESULT))
    assert "A [b]funny[/b] film for $5 or $6." in said and "… funny …" in said
    assert "✓ 0.0200" in said and "✗ ∞" in said


@pytest.mark.parametrize(
    "kept, said",
    [([1, 1, 1, 1], "a funny film"), ([0, 0, 0, 0], "…"), ([1, 0, 1, 0], "a … ny …"), ([0, 1, 0, 1], "… fun … film")],
)
def test_kept_words_leave_a_mark_for_what_is_dropped(kept, said):
    assert kept_words({"units": ["a", "fun", "##ny", "film"], "kept": [bool(keep) for keep in kept]}) == said
