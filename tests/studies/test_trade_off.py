"""What sparsity costs: the summary from rows counted by hand, and a study that is missing its probes."""

import pytest

from diffmask.errors import DataError
from diffmask.report.trade_off import pictures, table
from diffmask.studies.setup import Setup
from diffmask.studies.trade_off import run, summarise


def row(kind, shift, masked, f1_drop):
    found = {"kind": kind, "depth": 3, "site": "layer.3", "shift": shift, "masked": masked, "divergence": masked / 5}
    return {**found, "agreement": 1 - masked / 2, "f1_drop": f1_drop}


ROWS = [
    row("input", 2.0, 0.1, 0.2),
    row("input", 0.0, 0.4, 0.9),
    row("input", -2.0, 0.6, 3.0),
    row("hidden", 0, 0.9, 2),
]


def test_the_summary_is_the_most_that_is_masked_within_a_point():
    found = summarise(ROWS)
    assert found["input_3_masked_within_a_point"] == 0.4
    assert found["input_3_divergence_within_a_point"] == pytest.approx(0.08)
    assert found["hidden_3_masked_within_a_point"] is None


def test_the_table_goes_from_cautious_to_bold_and_the_curves_are_drawn():
    lines = table({"rows": ROWS}).splitlines()
    assert [line.split(" | ")[1] for line in lines[2:]] == ["10.0%", "40.0%", "60.0%", "90.0%"]
    assert len(pictures({"rows": ROWS})["curves"].axes) == 2


def test_without_the_sentiment_study_it_says_what_to_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="run `diffmask study sentiment` first"):
        next(iter(run(Setup(1, tmp_path / "x.json"))))
