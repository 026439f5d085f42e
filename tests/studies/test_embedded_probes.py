"""What ships with the package: how its probes are fitted, and what its card says."""

import json

import pytest

from diffmask.explaining.embedded import PLACE
from diffmask.studies import embedded_probes
from diffmask.studies.embedded_probes import FULL, KINDS, MARGIN, Size, card, config, shipped, train_once

TRAINED = {"dev_accuracy": 0.81234, "test_accuracy": 0.79876}
SUMMARY = {"megabytes": 3.14159, "input_masked": 0.5432, "kl": 0.0951, "hidden_masked": 0.6543, "hidden_kl": 0.0849}


@pytest.mark.parametrize("kind", KINDS)
def test_probes_are_fitted_by_the_text_recipe_with_voters_small_enough_to_ship(kind):
    found = config(kind, Size(steps=7, ablation_steps=3))
    assert (found.probe.kind, found.objective.margin, found.steps) == (kind, MARGIN, 7)
    assert (found.probe.hidden, found.probe.baseline.positions, found.probe.baseline.ablation_steps) == (64, 64, 3)
    assert found.calibrate and found.depths_per_step == 0


def test_the_card_has_what_was_measured():
    text = card(TRAINED, SUMMARY)
    flat = " ".join(text.split())
    assert "accuracy 0.8123 on the 872 binary dev sentences, 0.7988 on the 1 821 test sentences" in flat
    assert "3.1 MB with both probes" in flat
    assert "the input probe masks 54.3% of the tokens at a mean divergence of 0.095 nats (margin 0.1)" in flat
    assert "the hidden probe masks 65.4% of the states at 0.085 nats" in flat


def test_the_card_begins_with_what_model_hubs_read():
    lines = card(TRAINED, SUMMARY).splitlines()
    assert lines[0] == "---" and "license: mit" in lines[: lines.index("---", 1)]
    assert max(map(len, lines)) <= 120


def test_the_files_that_ship_are_in_the_package():
    assert {"model.safetensors", "probe-input.safetensors", "probe-hidden.safetensors"} <= set(shipped())
    assert all((PLACE / name).is_file() for name in shipped())


def test_the_classifier_is_trained_once(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(embedded_probes, "train_sentiment_model", lambda *given: asked.append(given) or TRAINED)
    data, work, encoder = (tmp_path / name for name in ("data", "work", "encoder"))
    assert train_once(data, work, encoder) == train_once(data, work, encoder) == TRAINED
    assert asked == [(data, work, 0, encoder)] and json.loads((work / "trained.json").read_text()) == TRAINED


def test_a_whole_run_measures_every_sentence():
    assert FULL.sentences is None
