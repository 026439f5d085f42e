"""The erasure study: its figures by hand, and the whole of it on a handful of sentences."""

import json
from dataclasses import replace

import pytest
import torch

from diffmask.attribution.erasure import Found
from diffmask.errors import DataError
from diffmask.models.word_gru import WordGRU, adapt_word_gru
from diffmask.report.erasure import table
from diffmask.studies import erasure
from diffmask.studies.erasure_scores import OURS, score_mask, score_masks
from diffmask.studies.setup import Setup
from diffmask.studies.word_model import train_word_model
from diffmask.tasks.sst import parse_tree, read_sst
from diffmask.tasks.words import Vocabulary, WordTask
from diffmask.training.step import look

WORDS = {"good": 4, "fine": 3, "a": 2, "film": 2, ".": 2, "dull": 1, "bad": 0}
NAMES = list(WORDS)


def tree(number):
    """A tree of three to five words, labelled by its first word."""
    chosen = [NAMES[(number * step + step) % len(NAMES)] for step in range(1, 4 + number % 3)]
    leaves = [f"({WORDS[word]} {word})" for word in chosen]
    return f"({WORDS[chosen[0]]} {' '.join(leaves)})"


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DIFFMASK_DATA", raising=False)
    (tmp_path / "sst").mkdir()
    for split in ("train", "dev"):
        (tmp_path / "sst" / f"{split}.txt").write_text("".join(f"{tree(i)}\n" for i in range(14)))
    return tmp_path


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(erasure, "SMALL", erasure.Size(epochs=30, steps=3, sentences=6, longest=5))


def sets(*rows):
    return torch.tensor(rows).bool()


FOUND = Found(sets([1, 1, 0, 0], [0, 0, 1, 1]), 2, 2, True, 11)


def test_a_mask_is_scored_against_the_optimum_that_fits_it_best():
    scores = score_mask(torch.tensor([0, 1, 1, 1]).bool(), FOUND, True)
    assert (scores.precision, scores.recall, scores.f1) == pytest.approx((2 / 3, 1, 0.8))
    assert scores.first_f1 == pytest.approx(0.4) and scores.optimality == 0 and scores.l0 == 0.75


@pytest.mark.parametrize(
    ("keep", "holds", "optimal"), [([0, 0, 1, 1], True, 1), ([0, 1, 1, 0], False, 0), ([0, 0, 0, 0], False, 0)]
)
def test_a_mask_is_optimal_if_it_holds_and_is_as_small_as_an_optimum(keep, holds, optimal):
    scores = score_mask(torch.tensor(keep).bool(), FOUND, holds)
    assert scores.optimality == optimal and 0 <= scores.f1 <= 1


def test_sentences_without_anything_to_find_or_not_searched_to_the_end_do_not_count():
    empty, cut = replace(FOUND, sets=sets([0, 0, 0, 0]), size=0), replace(FOUND, complete=False)
    keep = sets([1, 1, 0, 0], [1, 1, 1, 1], [1, 1, 1, 1])
    found = score_masks(keep, torch.tensor([True] * 3), [FOUND, empty, cut])
    assert found["f1"] == found["optimality"] == 100 and found["l0"] == 50


def test_a_word_model_learns_the_phrases_and_the_same_seed_gives_the_same_model(data):
    train = read_sst(data / "sst", "train")
    first, second = (train_word_model(train, train, 0, 30) for _ in range(2))
    assert first.accuracy > 0.5
    for one, other in zip(first.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_words_are_numbered_by_how_often_they_are_seen_and_the_rest_is_unknown():
    vocabulary = Vocabulary(["A film . A", "a film"], least=2)
    assert vocabulary.numbers("film a new") == [3, 2, 1] and len(vocabulary) == 4
    with pytest.raises(DataError, match="text 1 has no words"):
        vocabulary.encode(["a", " "])


def test_what_a_sentence_is_padded_with_changes_nothing():
    torch.manual_seed(0)
    vocabulary = Vocabulary(["a good film"], least=1)
    task = WordTask(vocabulary, [], [])
    model = adapt_word_gru(WordGRU(len(vocabulary)).eval())
    alone, among = (look(model, task, task.collate(texts)) for texts in (["a film"], ["a film", "a good good film"]))
    torch.testing.assert_close(alone.original["label"].raw, among.original["label"].raw[:1])
    assert task.units(["a film"]) == [["a", "film"]] and task.lengths(["a film"]) == [2]


def test_the_study_runs_from_training_to_its_result_and_does_not_run_a_finished_seed_again(data, small, monkeypatch):
    setup = Setup(1, data / "result.json", small=True, command="x", data=data)
    count, *lines, result = erasure.run(setup)
    assert count == 1 and len(lines) == 1 and lines[0].startswith("seed 0: diffmask F1 ")
    assert json.loads((data / "result.json").read_text()) == result
    assert result["study"] == "erasure" and result["seeds"] == [0]
    keys = {"sentences", "f1", "precision", "recall", "optimality", "l0", "reinforce_f1", "reinforce_optimality"}
    assert keys | {"searched_completely", "unpolished_f1", "strict_f1"} <= result["summary"].keys()
    assert result["summary"]["searched_completely"] == 1 and result["definitions"].keys() >= {"constraint", "optimum"}
    for row in (row for row in result["rows"] if "f1" in row):
        assert all(0 <= row[name] <= 100 for name in ("precision", "recall", "f1", "optimality", "l0"))
        if row["method"].endswith(("dropped", "exchanged")):
            assert row["feasible"] == 100
    shown = table(result)
    assert "| diffmask, published | 81.3 % |" in shown and f"| 0.02 | {OURS} |" in shown
    monkeypatch.setattr(erasure, "train_word_model", None)
    assert list(erasure.run(setup))[-1]["rows"] == result["rows"]


def test_missing_data_is_said_before_anything_is_trained(tmp_path, monkeypatch):
    monkeypatch.delenv("DIFFMASK_DATA", raising=False)
    with pytest.raises(DataError, match="name it with --data or DIFFMASK_DATA"):
        list(erasure.run(Setup(1, tmp_path / "x.json", small=True)))


def test_the_trees_of_these_tests_are_trees():
    assert {len(parse_tree(tree(number)).words) for number in range(14)} == {3, 4, 5}
