"""`diffmask fit` on text models that need care: told what they lack, or refused before anything is written."""

import json
import sys

import pytest

from diffmask.cli.main import main
from saved_models import TEXTS
from tiny_text import make_causal_classifier, make_tokenizer

SHORT = ["--steps", "2", "--batch-size", "4", "--margin", "1.0"]


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command line in this process, and return code, output and complaints."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["diffmask", *map(str, arguments)])
        with pytest.raises(SystemExit) as done:
            main()
        return done.value.code or 0, *capsys.readouterr()

    return run


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
