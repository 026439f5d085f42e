"""`diffmask report` from saved files to one HTML file, or one sentence about what is wrong."""

import json
import sys

import pytest

from diffmask.cli.main import main
from diffmask.report.plain import record
from page_samples import COMPARISON, explained


@pytest.fixture
def run(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["diffmask", "report", *map(str, arguments)])
        with pytest.raises(SystemExit) as done:
            main()
        return done.value.code or 0, *capsys.readouterr()

    return run


@pytest.fixture
def saved(tmp_path):
    lines = [record(explained(text, divergence), text) for text, divergence in (("one film", 0.05), ("two", 0.5))]
    (tmp_path / "films.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "methods.json").write_text(json.dumps(COMPARISON))
    return tmp_path


def test_a_report_is_written_and_its_place_is_said(run, saved):
    code, out, _ = run(
        saved / "films.jsonl", saved / "methods.json", "--output", saved / "r.html", "--title", "My films"
    )
    html = (saved / "r.html").read_text()
    assert code == 0 and (saved / "r.html").as_uri() in out and "1 of 2 verified hold their margin" in out
    assert "<h1>My films</h1>" in html and "two" in html and "<h2>methods</h2>" in html


def test_the_summary_can_be_json(run, saved):
    code, out, _ = run(saved, "--output", saved / "r.html", "--json")
    found = json.loads(out)
    assert code == 0 and found["explanations"] == 2 and found["within_margin"] == 1
    assert found["comparisons"] == ["methods"] and found["bytes"] == (saved / "r.html").stat().st_size


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["none.jsonl"], 1, "no file none.jsonl"),
        ([], 2, "Missing argument"),
        (["films.jsonl", "--output", "methods.json/r.html"], 1, "which is a file: name another place"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(run, saved, monkeypatch, arguments, code, said):
    monkeypatch.chdir(saved)
    found, _, complaint = run(*arguments)
    assert found == code and said in complaint and "Traceback" not in complaint


def test_the_help_has_a_worked_example(run):
    _, out, _ = run("--help")
    assert "Example: diffmask explain --input texts.txt" in out
