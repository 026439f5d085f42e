"""Do seeds agree: the study from end to end on a few sentences, and its figures from probabilities known by hand."""

import json
from dataclasses import replace

import pytest
import torch

from diffmask.report.stability import table
from diffmask.storage import save_tensors
from diffmask.studies import stability
from diffmask.studies.setup import Setup

TREES = ["(4 (3 (2 a) (4 funny)) (2 movie))", "(0 (1 (2 a) (0 dull)) (2 movie))"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DIFFMASK_DATA", raising=False)


@pytest.fixture
def data(tmp_path):
    for part in ("train", "dev", "test"):
        place = tmp_path / "data" / "sst" / f"{part}.txt"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("\n".join(TREES * 20) + "\n")
    return tmp_path / "data"


@pytest.mark.slow
def test_the_study_runs_and_goes_on_where_it_was(data, tmp_path, monkeypatch):
    monkeypatch.setattr(stability, "SIZES", (1, 2))
    setup = Setup(2, tmp_path / "stability.json", small=True, data=data)
    first = list(stability.run(setup))[-1]
    again = list(stability.run(setup))[-1]
    assert first["summary"] == again["summary"] and json.loads(setup.output.read_text())["seeds"] == [0, 1]
    fewer = list(stability.run(replace(setup, seeds=1)))[-1]  # what other seeds left is not taken for its own
    assert {(row["kind"], row["members"]) for row in fewer["rows"]} == {
        (kind, members) for kind in ("input", "hidden") for members in (1, 2)
    }
    assert {(row["kind"], row["members"], row["seed"]) for row in first["rows"]} == {
        (kind, members, seed) for kind in ("input", "hidden") for members in (1, 2) for seed in (0, 1)
    }
    assert [line.split(" | ")[0] for line in table(first).splitlines()[2:]] == ["| inputs"] * 2 + [
        "| hidden states"
    ] * 2


def test_the_spread_is_the_standard_deviation_over_committees_of_one_size(tmp_path, monkeypatch):
    monkeypatch.setattr(stability, "SIZES", (2,))
    committees = [(kind, 2, seed) for kind in ("input", "hidden") for seed in (0, 1)]
    for kind, members, seed in committees:
        said = torch.tensor([[0.0, 0.5], [0.5, float(seed)]]) if kind == "input" else torch.full((2, 2), 0.3)
        save_tensors(stability._file(tmp_path, (kind, members, seed)), stability.PROBED, {"probability": said}, {})
    found = stability.spreads(committees, tmp_path)
    assert found["input"][2] == pytest.approx(0.5**0.5 / 4) and found["hidden"][2] == 0


def test_the_summary_averages_what_is_masked():
    rows = [
        {"kind": "input", "members": 2, "masked": masked, "divergence": 0.1, "agreement": 1.0} for masked in (0.2, 0.4)
    ]
    found = stability.summarise(rows, {"input": {2: 0.07}})
    assert found["input"]["2"] == pytest.approx({"std": 0.07, "masked": 0.3, "divergence": 0.1, "agreement": 1.0})
