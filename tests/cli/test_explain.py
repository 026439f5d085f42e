import dataclasses
import json
import subprocess
import sys

import pytest
import torch

from diffmask.cli.main import main
from diffmask.explaining import pretrained
from diffmask.settings import change

TEXT = "A fast, funny, highly enjoyable movie."


@pytest.fixture(scope="module")
def probes():
    return {kind: pretrained.from_pretrained(f"embedded:{kind}") for kind in ("input", "hidden")}


@pytest.fixture
def run(monkeypatch, capsys, probes):
    """Run the command line in this process, with the model loaded once, and return code, output and complaints."""
    load = pretrained.from_pretrained

    def loaded(run, **settings):
        return probes[run.partition(":")[2] or "input"] if run.startswith("embedded") else load(run, **settings)

    monkeypatch.setattr(pretrained, "from_pretrained", loaded)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["diffmask", "explain", *map(str, arguments)])
        with pytest.raises(SystemExit) as done:
            main()
        return done.value.code or 0, *capsys.readouterr()

    return run


@pytest.fixture
def broken(monkeypatch, probes):
    """Make the probe drop everything under a margin that nothing holds but the whole text."""
    fitted = probes["input"]
    monkeypatch.setitem(probes, "input", dataclasses.replace(fitted, config=change(fitted.config, {"margin": 1e-7})))
    before = fitted.probe.shift.clone()
    with torch.no_grad():
        fitted.probe.shift.fill_(-100.0)
    yield
    with torch.no_grad():
        fitted.probe.shift.copy_(before)


def test_a_text_is_shown_with_prediction_check_and_depths(run):
    code, said, _ = run(TEXT)
    assert code == 0 and said.startswith(TEXT)
    assert "prediction" in said and "margin" in said and "▸3" in said and "kept with a probability" in said


def test_markup_in_a_text_is_shown_not_obeyed(run):
    code, said, _ = run("[red]fine[/red] <b>")
    assert code == 0 and said.startswith("[red]fine[/red] <b>")


@pytest.mark.parametrize("kind", ["input", "hidden"])
def test_json_has_one_object_a_line(run, kind):
    code, said, complaint = run(TEXT, "Dull.", "--json", "--kind", kind)
    first, second = map(json.loads, said.splitlines())
    assert code == 0 and complaint == "" and first["text"] == TEXT and second["text"] == "Dull."
    assert len(first["scores"]) == len(first["depths"]) == 4 and len(first["scores"][0]) == len(first["units"])
    assert all(0 <= score <= 1 for row in first["scores"] for score in row)
    assert first["kept"] == [score > 0.5 for score in first["scores"][-1]]
    assert first["prediction"] in ("negative", "positive") and first["kind"] == kind and len(first["fingerprint"]) == 16
    assert first["verification"]["margin"] > 0 and first["certified"] is False


def test_a_file_gives_one_text_a_line_and_output_takes_them(run, tmp_path):
    (tmp_path / "texts.txt").write_text("Dull.\n\n  Très bien \n")
    code, said, _ = run("Fine.", "--input", tmp_path / "texts.txt", "--output", tmp_path / "new" / "found.jsonl")
    records = [json.loads(line) for line in (tmp_path / "new" / "found.jsonl").read_text().splitlines()]
    assert code == 0 and [each["text"] for each in records] == ["Fine.", "Dull.", "Très bien"]
    assert said.startswith("wrote 3 to") and "prediction" not in said


def test_with_json_and_output_both_get_the_same(run, tmp_path):
    _, said, _ = run(TEXT, "--json", "--output", tmp_path / "x.jsonl")
    assert said == (tmp_path / "x.jsonl").read_text()


def test_a_table_gives_the_texts_of_a_column(run, tmp_path):
    (tmp_path / "texts.csv").write_text("id,review\n1,Dull.\n2,Fine.\n")
    table = ["--input", tmp_path / "texts.csv"]
    code, said, _ = run(*table, "--text-column", "review", "--json", "--batch-size", "1")
    assert code == 0 and [json.loads(line)["text"] for line in said.splitlines()] == ["Dull.", "Fine."]
    code, _, complaint = run(*table)
    assert code == 1 and "has no column 'text'; it has 'id', 'review'" in complaint and complaint.count("\n") == 1


def test_the_predicted_label_can_be_named_and_no_other(run):
    assert run(TEXT, "--target", "positive", "--json")[1] == run(TEXT, "--json")[1]
    code, said, complaint = run(TEXT, "--target", "0")
    assert code == 2 and said == "" and "the model predicts 'positive': a probe explains what is predicted" in complaint
    assert "example 2 was asked" in run(TEXT, "Dull.", "--target", "positive", "--batch-size", "1")[2]
    assert "no label named 'fine'. Known: negative, positive, predicted" in run(TEXT, "--target", "fine")[2]


def test_a_run_that_is_none_is_one_sentence(run, tmp_path):
    code, _, complaint = run(TEXT, "--run", tmp_path)
    assert code == 1 and "is no saved probe" in complaint and complaint.count("\n") == 1
    code, _, complaint = run(TEXT, "--run", tmp_path / "nope")
    assert code == 1 and "there is no directory" in complaint
    code, _, complaint = run(TEXT, "--run", tmp_path, "--kind", "hidden")
    assert code == 2 and "masks what it was fitted to mask" in complaint


@pytest.mark.parametrize("depth", ["1", "-3", "bert.encoder.layer.0:input"])
def test_a_depth_is_a_number_or_a_name(run, depth):
    assert json.loads(run(TEXT, "--json", "--depth", depth)[1])["depth"] == 1


def test_a_broken_margin_can_be_required_not_to_be(run, broken):
    assert run(TEXT)[0] == 0
    code, said, complaint = run(TEXT, "--require-margin")
    assert code == 3 and "breaks the margin" in said
    assert "0 of 1 explanations hold their margin; --certify repairs the others" in complaint


def test_certify_repairs_what_breaks(run, broken):
    code, said, _ = run(TEXT, "--certify", "--require-margin", "--json")
    found = json.loads(said)
    assert code == 0 and found["certified"] and found["verification"]["within_margin"] and any(found["kept"])


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        ([], "give a text, or a file of them with --input"),
        (["Fine.", " "], "a text is empty"),
        (["Fine.", "--depth", "9"], "depth 9 does not exist: this probe has 4"),
        (["Fine.", "--depth", "bert.encoder.layer.2"], "did you mean 'bert.encoder.layer."),
        (["Fine.", "--kind", "both"], "not one of"),
    ],
)
def test_wrong_usage_is_code_2(run, arguments, complaint):
    code, said, complained = run(*arguments)
    assert code == 2 and said == "" and complaint in complained and "Traceback" not in complained


def test_a_missing_or_empty_file_is_one_sentence_and_code_1(run, tmp_path):
    code, _, complaint = run("--input", tmp_path / "nope.txt")
    assert code == 1 and "no file" in complaint and complaint.count("\n") == 1
    (tmp_path / "empty.txt").write_text(" \n\n")
    code, _, complaint = run("--input", tmp_path / "empty.txt")
    assert code == 1 and "has no rows: write at least one text into it" in complaint


@pytest.mark.parametrize("size", [1, 2, 64])
def test_a_text_that_cannot_be_explained_is_named_by_its_place(run, tmp_path, monkeypatch, probes, size):
    monkeypatch.setattr(probes["input"].task, "gate_special", False)
    monkeypatch.setattr(probes["input"].task, "_seen", {})
    (tmp_path / "texts.csv").write_text("id,text\n1,Dull.\n2,Fine.\n3,\u200b\n")
    code, said, complaint = run("Good.", "--input", tmp_path / "texts.csv", "--batch-size", size)
    assert code == 1 and not said and f"{tmp_path / 'texts.csv'}, row 3: an example has no units" in complaint
    assert "diffmask: text 2: an example has no units" in run("Good.", "\u200b", "Fine.", "--batch-size", size)[2]


def test_a_file_named_as_a_text_is_not_explained_by_its_name(run, tmp_path):
    (tmp_path / "texts.txt").write_text(TEXT)
    code, said, complaint = run(tmp_path / "texts.txt")
    assert code == 2 and not said and "is a file" in complaint and "--input" in complaint
    code, _, complaint = run("A long text, too long for the name of a file. " * 9 + "See notes.txt")
    assert code == 0 and "is a file" not in complaint


def test_an_output_that_cannot_be_written_is_code_1(run, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, complaint = run(TEXT, "--output", tmp_path / "file" / "x.jsonl")
    assert code == 1 and "which is a file: name another place" in complaint


def test_strict_refuses_a_long_text_as_a_person_sees_it():
    command = [sys.executable, "-m", "diffmask", "explain", "--strict", "word " * 200]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "the model takes 128" in done.stderr and done.stderr.count("\n") == 1


def test_the_help_has_the_worked_example(run):
    code, said, _ = run("--help")
    assert code == 0 and 'Example: diffmask explain "A fast, funny, highly enjoyable movie."' in said
