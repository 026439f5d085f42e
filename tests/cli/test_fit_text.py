"""`diffmask fit` on text models that need care: told what they lack, or refused before anything is written."""

import json

import pytest

from saved_models import TEXTS, save_model
from tiny_text import make_causal_classifier, make_model, make_tokenizer

SHORT = ["--steps", "2", "--batch-size", "4", "--margin", "1.0"]


@pytest.fixture
def fit(run, tmp_path):
    """Fit a probe to a model on disk with few steps, into a directory."""
    (tmp_path / "train.csv").write_text("text\n" + "".join(f"{text}\n" for text in TEXTS * 4))
    (tmp_path / "quick.toml").write_text("[fit.probe.baseline]\nablation_steps = 2\n")
    given = ["--data", tmp_path / "train.csv", "--config", tmp_path / "quick.toml", *SHORT]
    return lambda model, *more: run("fit", model, *given, "--output", tmp_path / "run", *more)


def save(place, model, tokenizer):
    model.save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place


def test_a_classifier_that_does_not_know_its_padding_is_told_and_explains(run, fit, tmp_path):
    gpt2 = save(tmp_path / "gpt2", make_causal_classifier(pad_token_id=None), make_tokenizer(causal=True))
    code, _, complaint = fit(gpt2, "--json")
    assert code == 0, complaint
    code, said, complaint = run("explain", "--run", tmp_path / "run", *TEXTS, "--json")
    assert code == 0 and len(said.splitlines()) == 3 and json.loads(said.splitlines()[0])["verification"], complaint


@pytest.mark.parametrize(
    ("kind", "task", "complaint"),
    [
        ("classification", "token", "not trained for 'token': it is a BertForSequenceClassification, which does 'clas"),
        ("classification", "next-token", "not trained for 'next-token': it is a BertForSequenceClassification"),
        ("token", "classification", "not trained for 'classification': it is a BertForTokenClassification, which does"),
        ("regression", "classification", "TextClassification reads labels of a text, and the model gives one number"),
        ("classification", "regression", "TextRegression reads one number for a text, and the model gives labels of"),
    ],
)
def test_a_task_that_is_not_the_models_is_refused_before_anything_is_written(fit, tmp_path, kind, task, complaint):
    code, _, complained = fit(save_model(tmp_path / "model", kind), "--task", task)
    assert code == 1 and complaint in complained and "Traceback" not in complained and not (tmp_path / "run").exists()


def test_a_suspicious_tokenizer_is_warned_of_once(fit, tmp_path, caplog):
    bert = save(tmp_path / "bert", make_model("bert", vocab_size=200), make_tokenizer())
    assert fit(bert, "--json")[0] == 0
    assert caplog.text.count("may not match BertForSequenceClassification") == 1
