import json

import pytest
from typer.testing import CliRunner

from diffmask.cli.main import app
from diffmask.explaining.embedded import load_embedded
from diffmask.studies.demo import OURS, RIVALS, SENTENCES, compare, summarise


@pytest.fixture(scope="module")
def fitted():
    return load_embedded()


def test_the_sentences_are_twenty_and_differ():
    assert len(set(SENTENCES)) == 20


def test_the_probe_is_measured_as_its_own_explanation_was(fitted):
    found = compare(fitted, SENTENCES[1])
    checked, ours = found["explanation"]["verification"], found["rows"][0]
    assert ours["method"] == OURS and ours["time_ratio"] == 1
    assert ours["divergence"] == pytest.approx(checked["divergence"], abs=1e-5)
    assert ours["same_prediction"] == checked["same_prediction"]


def test_every_rival_is_measured_on_the_same_sentence(fitted):
    found = compare(fitted, SENTENCES[0], number=7)
    assert [row["method"] for row in found["rows"]] == [OURS, *RIVALS, "random"]
    assert all(row["sentence"] == 7 and row["divergence"] > -1e-6 for row in found["rows"])
    assert len(found["kept_by_depth"]) == len(found["explanation"]["depths"])


def test_every_rival_keeps_as_many_units_as_the_probe_those_it_scores_highest(fitted):
    explanation = compare(fitted, SENTENCES[0])["explanation"]
    count = sum(explanation["kept"])
    for rival in explanation["rivals"]:
        kept = [score for score, keep in zip(rival["scores"], rival["kept"], strict=True) if keep]
        assert sum(rival["kept"]) == count and sorted(rival["scores"])[-count:] == sorted(kept)


def test_the_summary_compares_sentence_by_sentence():
    def rows(method, *divergences):
        row = {"method": method, "same_prediction": True, "time_ratio": 2.0}
        return [{**row, "divergence": value} for value in divergences]

    found = summarise(rows(OURS, 0.0, 0.2) + rows("rival", 0.1, 0.5), margin=0.15)
    assert found[OURS]["gap"] == 0 and found[OURS]["within_margin"] == 1
    assert found["rival"]["gap"] == pytest.approx(0.2) and found["rival"]["gap_error"] == pytest.approx(0.1)
    assert found["rival"]["divergence"] == pytest.approx(0.3) and found["rival"]["same_prediction"] == 2


@pytest.mark.slow
def test_the_demo_prints_its_table_and_writes_result_and_pictures(tmp_path):
    done = CliRunner().invoke(app, ["demo", "--sentences", "2", "--output", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "integrated-gradients" in done.output and "DiffMask probe" in done.output and "loses to" in done.output
    result = json.loads((tmp_path / "demo.json").read_text())
    assert len(result["rows"]) == 12 and result["summary"]["sentences"] == 2
    drawn = {path.name for path in tmp_path.glob("*.png")}
    assert drawn == {f"demo-{name}.png" for name in ("sentence-1", "sentence-2", "depths", "rivals")}
    report = tmp_path / "report.html"
    assert report.as_uri() in done.output and "leave-one-out" in report.read_text()


def test_the_demos_help_has_a_worked_example():
    assert "Example: diffmask demo" in CliRunner().invoke(app, ["demo", "--help"]).output
