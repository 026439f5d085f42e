"""The tables and pictures of committed results can be remade from the files alone."""

import json
from pathlib import Path

import pytest

from diffmask.errors import UnknownNameError
from diffmask.report import PICTURES, TABLES
from diffmask.report.fill import fill

RESULTS = Path(__file__).parents[2] / "results"
FILES = ["attention_cost", "digits", "embedded_model", "question_answering", "sentiment"]


def read(name):
    return json.loads((RESULTS / f"{name}.json").read_text())


@pytest.mark.parametrize("name", FILES)
def test_every_row_of_a_table_has_as_many_cells_as_its_head(name):
    result = read(name)
    lines = TABLES.get(result["study"])(result).splitlines()
    assert len(lines) > 3 and len({line.count("|") for line in lines}) == 1


@pytest.mark.parametrize("name", FILES)
def test_pictures_are_drawn_from_the_file_alone(name):
    result = read(name)
    drawn = PICTURES.get(result["study"])(result)
    assert all(figure.get_axes() for figure in drawn.values())


@pytest.mark.parametrize("name", FILES)
def test_a_result_says_what_made_it(name):
    result = read(name)
    assert all(result[key] for key in ("command", "commit", "versions", "hardware", "seeds", "summary", "rows"))


def test_the_sentiment_table_shows_what_a_mask_costs():
    lines = TABLES.get("sentiment")(read("sentiment")).splitlines()
    line = next(row for row in lines if row.startswith("| inputs") and "certified" not in row)
    before, after = (float(figure) for figure in line.split("|")[7].split("→"))
    summary = read("sentiment")["summary"]
    assert before == round(summary["base_f1"], 1) and before - after <= summary["one_threshold"]["f1_drop_max"]


def test_a_change_stands_beside_the_same_seed_without_it():
    lines = TABLES.get("sentiment#changes")(read("sentiment")).splitlines()
    assert len({line.count("|") for line in lines}) == 1
    names = [line.split("|")[1].strip() for line in lines[2:]]
    assert names[:2] == ["inputs, certified", "inputs, one threshold"]
    assert {name.partition(": ")[2] for name in names} == {
        *("", "zeros for a baseline", "networks that vote", "votes coupled as published"),
    }


def test_a_page_takes_a_further_table_of_a_study(tmp_path):
    (tmp_path / "sentiment.json").write_text(json.dumps(read("sentiment")))
    page = "<!-- table: sentiment.json#changes -->\n<!-- end -->\n"
    assert "probe of one seed" in fill(page, tmp_path) and "[sentiment.json](sentiment.json)" in fill(page, tmp_path)
    for wrong in ("chances", "some-changes"):
        with pytest.raises(
            UnknownNameError, match=f"no table named 'sentiment#{wrong}'; did you mean 'sentiment#changes'"
        ):
            fill(page.replace("changes", wrong), tmp_path)


def test_a_study_that_was_stopped_leaves_out_what_it_has_not_done():
    result = read("sentiment")
    result["rows"] = [row for row in result["rows"] if row["margin"] == 0.1 or row["kind"] == "input"]
    table = TABLES.get("sentiment")(result)
    assert "| inputs, certified, 0.5" in table and "| hidden states, certified, 0.5" not in table


def test_the_picture_of_depths_shows_what_was_certified_by_seed():
    result = read("sentiment")
    found = [row for row in result["rows"] if (row["kind"], row["margin"], row["change"]) == ("hidden", 0.1, "")]
    drawn = PICTURES.get("sentiment")(result)["depths"].get_axes()
    first = [row["certified_masked"] for row in found if row["seed"] == 0]
    lines = [list(line.get_ydata()) for axis in drawn for line in axis.get_lines()]
    assert any(line == pytest.approx(first) for line in lines)
