"""The studies of text from end to end, on a tiny encoder and a handful of texts: every part runs and fits the next."""

import gzip
import json
from pathlib import Path

import pytest
from transformers import BertConfig, BertModel

from diffmask.errors import DataError
from diffmask.report import TABLES
from diffmask.studies import (
    answer_alone,
    digits,
    embedded_probes,
    needles,
    question_answering,
    sentiment,
    sentiment_figures,
)
from diffmask.studies.setup import Setup
from diffmask.tasks import parts_of_speech
from diffmask.tasks.sst import parse_tree
from diffmask.training.free import FreeConfig
from tiny_text import SIZES, make_tokenizer

WORDS = ["a", "fast", "funny", "movie", "enjoyable", "."]
SITES = 4  # embeddings, the input of the first layer, and the output of each


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Run in a directory of its own, with a tagger that calls every word a noun."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DIFFMASK_DATA", raising=False)
    monkeypatch.setattr(parts_of_speech, "_tag", lambda texts: [list(nouns(text)) for text in texts])


def nouns(text):
    start = 0
    for word in text.split():
        start = text.index(word, start)
        yield start, start + len(word), "NOUN"
        start += len(word)


@pytest.fixture
def encoder(tmp_path):
    directory = tmp_path / "encoder"
    BertModel(BertConfig(**SIZES)).save_pretrained(directory)
    make_tokenizer().save_pretrained(directory)
    return directory


@pytest.fixture
def data(tmp_path):
    """Write twelve sentences a split, and three articles of six questions each."""
    (tmp_path / "sst").mkdir()
    for split in ("train", "dev", "test"):
        (tmp_path / "sst" / f"{split}.txt").write_text("".join(f"{tree(i)}\n" for i in range(12)))
    (tmp_path / "squad").mkdir()
    articles = [{"title": title, "paragraphs": [paragraph(i) for i in range(6)]} for title in "abc"]
    content = json.dumps({"data": articles}).encode()
    (tmp_path / "squad" / question_answering.FILE).write_bytes(gzip.compress(content))
    return tmp_path


def tree(number):
    first, second, third = (WORDS[(number + i) % len(WORDS)] for i in range(3))
    return f"({number % 5} (2 {first}) ({number % 4} (3 {second}) (2 {third})))"


def paragraph(number):
    passage = f"a fast movie . {WORDS[number]} {WORDS[-number]}"
    answer = {"text": "fast movie", "answer_start": 2, "occurrences": 1}
    return {"context": passage, "qas": [{"question": "what ?", "answers": [answer]}]}


def run(study, data, encoder, seeds=2, **more):
    """Run a study small, and return how many runs it announced, the lines it said, and its result."""
    setup = Setup(seeds, data / "result.json", small=True, command="x", data=data, encoder=encoder, **more)
    count, *lines, result = study.run(setup)
    assert json.loads((data / "result.json").read_text()) == result
    return count, lines, result


@pytest.fixture
def small_sentiment(monkeypatch):
    monkeypatch.setattr(sentiment, "SMALL", sentiment.Size(1, 2, 2, ablation_steps=1, sentences=8))
    monkeypatch.setattr(sentiment_figures, "FreeConfig", lambda steps: FreeConfig(steps=2))


@pytest.fixture
def small_questions(monkeypatch):
    monkeypatch.setattr(question_answering, "SMALL", question_answering.Size(1, 2, 2, 1, questions=18, reported=2))


@pytest.mark.slow
def test_sentiment_runs_from_fine_tuning_to_its_result(small_sentiment, data, encoder):
    count, lines, result = run(sentiment, data, encoder)
    assert count == 11 and len(lines) == 1 + 11 and lines[0].startswith("fine-tuned: dev accuracy ")
    assert result["study"] == "sentiment" and result["seeds"] == [0, 1] and len(result["made_with"]) == 1
    assert not list(Path("runs").rglob("checkpoint.safetensors"))  # other code would find these fits finished
    assert {(row["kind"], row["margin"], row["depth"]) for row in result["rows"]} == {
        (kind, margin, depth) for kind in ("input", "hidden") for margin in (0.1, 0.5) for depth in range(SITES)
    }
    assert all(0 <= row[key] <= 1 for row in result["rows"] for key in ("masked", "f1", "accuracy", "agreement"))
    assert result["unfinished"] == [] and result["margins"] == [0.1, 0.5]
    assert result["summary"]["seeds"] == 2 and len(result["stability"]["hidden"]["by_depth"]) == SITES
    figures = result["figures"]
    pieces = [len(make_tokenizer().tokenize(parse_tree(tree(i)).text)) for i in range(8)]
    assert figures["kept_layers"]["input"]["by_part_of_speech"]["NOUN"]["count"] == sum(pieces)
    assert {"neutral", "positive"} <= figures["kept_layers"]["hidden"]["by_sentiment"].keys()
    assert 0 <= figures["cls_first"] <= 1 and figures["alone"].keys() >= {"probe_masked", "per_example_divergence"}
    for kind, depths in (("input", 1), ("hidden", SITES)):
        shown = figures["example"][kind]
        units = len(shown["units"])
        assert len(shown["scores"]["DiffMask"]) == len(shown["sites"]) == SITES
        for method, scores in shown["scores"].items():
            assert len(scores) == (SITES if method == "DiffMask" else depths)
            assert all(len(row) == units for row in scores)


@pytest.mark.slow
def test_question_answering_runs_from_fine_tuning_to_its_result(small_questions, data, encoder):
    count, lines, result = run(question_answering, data, encoder)
    assert count == 6 and len(lines) == 1 + 6 and lines[0].startswith("fine-tuned: exact start and end ")
    assert {(row["kind"], row["seed"], row["depth"]) for row in result["rows"]} == {
        (kind, seed, depth) for kind in ("input", "around", "hidden") for seed in range(2) for depth in range(SITES)
    }
    parts = ("question_kept", "passage_kept", "passage_masked", "predicted_answer_kept", "predictions_kept")
    assert all(0 <= row[part] <= 1 for row in result["rows"] for part in parts)
    assert result["fine_tuned"]["questions"] == 12 and len(result["made_with"]) == 1
    assert len(result["summary"]["input_question_kept_by_depth"]) == SITES
    figures = result["figures"]["hidden"]
    assert len(figures["sites"]) == SITES and len(figures["examples"][0]["keep"]) == SITES
    assert len(figures["examples"][0]["keep"][0]) == len(figures["examples"][0]["tokens"])


@pytest.fixture
def small_answers(monkeypatch):
    monkeypatch.setattr(answer_alone, "SMALL", answer_alone.Size(1, 24, 2, reported=2, questions=18))


@pytest.mark.slow
def test_answers_alone_run_from_fine_tuning_to_a_table(small_answers, data, encoder):
    count, lines, result = run(answer_alone, data, encoder)
    assert count == 10 and len(lines) == 1 + 10
    assert {(row["side"], row["measure"], row["seed"]) for row in result["rows"]} == {
        (*kept, seed) for kept in answer_alone.KEPT for seed in range(2)
    }
    alone = [row for row in result["rows"] if row["side"] is None]
    assert all(row["passage_masked"] == 1 for row in alone)  # the more is kept, the less is masked
    masked = result["summary"]
    assert 1 > masked["answer_0_kl_passage_masked"] > masked["answer_3_kl_passage_masked"]
    assert "| the answer and 3 tokens on each side | the decision |" in TABLES.get("answer-alone")(result)


def test_both_studies_say_what_is_missing_before_they_train(small_sentiment, small_questions, data):
    for study in (sentiment, question_answering):
        with pytest.raises(DataError, match="name a directory that transformers' from_pretrained reads with --encoder"):
            run(study, data, None)
        with pytest.raises(DataError, match="in the data directory, which is not given: name it with --data"):
            list(study.run(Setup(1, data / "x.json", small=True)))


class Asked(Exception):
    """Tells what a study asked `run_seeds` to do, instead of doing it."""


def ask(run, seeds, directory, settings, jobs, take_over=False, partial=False):
    raise Asked(take_over)


@pytest.mark.parametrize("study", [digits, embedded_probes, needles, question_answering, sentiment])
@pytest.mark.parametrize("take_over", [True, False])
def test_every_study_takes_over_runs_made_elsewhere_if_asked(
    study, take_over, small_sentiment, small_questions, data, encoder, monkeypatch
):
    monkeypatch.setattr(study, "run_seeds", ask)
    monkeypatch.setattr(embedded_probes, "train_once", lambda *given: {})
    with pytest.raises(Asked) as asked:
        run(study, data, encoder, take_over=take_over)
    assert asked.value.args == (take_over,)
