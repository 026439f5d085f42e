"""`diffmask compare` from the outside."""

import json
import sys

import pytest
from typer.testing import CliRunner

from diffmask.cli.main import app, main

TEXTS = ["A fine film.", "Dull and long."]


def run(*arguments):
    return CliRunner().invoke(app, ["compare", *TEXTS, "--methods", "probe,random", "--metrics", "srg", *arguments])


def test_it_shows_a_table_and_says_what_it_was_made_from():
    found = run()
    assert found.exit_code == 0 and "probe" in found.output and "2 examples at site" in found.output


@pytest.mark.parametrize(("form", "begins"), [("csv", "method,metric"), ("latex", r"\begin{tab"), ("markdown", "| me")])
def test_it_writes_other_forms(form, begins):
    assert run("--format", form).stdout.startswith(begins)


def test_json_goes_to_a_file_and_can_be_read_back(tmp_path):
    found = run("--format", "json", "--output", str(tmp_path / "found.json"))
    assert found.exit_code == 0 and "wrote" in found.output
    assert {row["method"] for row in json.loads((tmp_path / "found.json").read_text())["rows"]} == {"probe", "random"}


def test_a_text_that_is_too_long_is_refused_if_strict(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["diffmask", "compare", "fine " * 200, "--strict"])
    with pytest.raises(SystemExit) as done:
        main()
    assert done.value.code == 1 and "tokens and the model takes 128" in capsys.readouterr().err


def test_a_depth_that_does_not_exist_is_a_usage_error():
    found = run("--depth", "9")
    assert found.exit_code == 2 and "depth 9 does not exist" in found.output


def test_without_a_text_it_says_what_to_give():
    found = CliRunner().invoke(app, ["compare"])
    assert found.exit_code == 2 and "give a text" in found.output


def test_with_json_the_file_is_named_aside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = run("--json", "--output", "found.json")
    assert found.exit_code == 0 and found.stdout == "" and "wrote found.json" in found.stderr


def test_images_of_a_table_can_be_named_as_in_explain():
    assert run("--image-column", "picture", "--device", "cpu", "--batch-size", "2").exit_code == 0


def test_json_is_a_form_of_its_own():
    assert {row["method"] for row in json.loads(run("--json").stdout)["rows"]} == {"probe", "random"}


def test_a_metric_that_needs_the_truth_says_so_and_that_python_takes_it(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["diffmask", "compare", *TEXTS, "--metrics", "srg,f1"])
    with pytest.raises(SystemExit) as done:
        main()
    complaint = capsys.readouterr().err
    assert done.value.code == 2 and complaint.count("\n") == 1
    assert "metric 'f1' needs to know which units matter" in complaint and "the command line has no option" in complaint
