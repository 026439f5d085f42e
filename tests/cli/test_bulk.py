import json
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from pyarrow import parquet

from diffmask.cli.main import main
from diffmask.explaining.embedded import load_embedded


@pytest.fixture(scope="module")
def embedded():
    return load_embedded()


@pytest.fixture
def run(monkeypatch, capsys, embedded):
    """Run the command line in this process, with the model loaded once, and return code, output and complaints."""
    monkeypatch.setattr("diffmask.bulk.worker.from_pretrained", lambda *_, **__: embedded)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["diffmask", "explain", *map(str, arguments)])
        with pytest.raises(SystemExit) as done:
            main()
        return done.value.code or 0, *capsys.readouterr()

    return run


@pytest.fixture
def source(tmp_path):
    (tmp_path / "data.csv").write_text("key,text\na,A fast and funny movie.\nb,\nc,Dull.\nd,Not bad at all.\n")
    return tmp_path / "data.csv"


def test_a_directory_gets_shards_and_a_summary_says_what_is_in_them(run, source, tmp_path):
    code, said, complaint = run(
        "--input", source, "--output", tmp_path / "out", "--chunk-size", 2, "--id-column", "key"
    )
    assert code == 0 and said.startswith("wrote 4 rows to 2 shards in") and "of 3 explanations hold" in said
    assert "1 of 4 rows could not be explained: their column 'error' says why" in complaint
    assert parquet.read_table(tmp_path / "out")["id"].to_pylist() == ["a", "b", "c", "d"]


def test_json_is_one_object_and_a_second_run_has_nothing_to_do(run, source, tmp_path):
    first, second = (run("--input", source, "--output", tmp_path / "out", "--json") for _ in range(2))
    assert first[0] == second[0] == 0 and first[2] == ""
    one, two = json.loads(first[1]), json.loads(second[1])
    assert one["rows"] == 4 and one["errors"] == 1 and one["rows_before"] == 0 and two["rows_before"] == 4
    assert {**one, "rows_before": 4} == two


def test_a_file_as_output_still_gets_json_lines(run, tmp_path, monkeypatch, embedded):
    monkeypatch.setattr("diffmask.explaining.pretrained.from_pretrained", lambda *_, **__: embedded)
    (tmp_path / "x.txt").write_text("Dull.\n")
    assert run("--input", tmp_path / "x.txt", "--output", tmp_path / "x.jsonl")[0] == 0
    assert json.loads((tmp_path / "x.jsonl").read_text())["text"] == "Dull."


def test_a_required_margin_is_not_held_by_a_row_without_an_explanation(run, source, tmp_path):
    arguments = ("--input", source, "--output", tmp_path / "out", "--certify", "--require-margin")
    code, _, complaint = run(*arguments)
    assert code == 3 and "1 of 4 rows do not hold their margin" in complaint and "--certify" not in complaint
    source.write_text("text\nDull.\n")
    assert run("--input", source, "--output", tmp_path / "new", "--certify", "--require-margin")[0] == 0


def test_a_file_of_which_no_row_can_be_explained_is_an_error(run, tmp_path):
    (tmp_path / "x.jsonl").write_text('{"text": null}\n{"text": 3}\n')
    code, _, complaint = run("--input", tmp_path / "x.jsonl", "--output", tmp_path / "out")
    assert code == 1 and "not one of 2 rows could be explained" in complaint


@pytest.mark.parametrize(
    "arguments, code, complaint",
    [
        (["--engine", "ray"], 2, "shards are made with --input FILE --output DIRECTORY"),
        (["Dull.", "--output", "{out}"], 2, "from no other text"),
        (["--output", "{out}", "--engine", "spark"], 2, "no engine named 'spark'"),
        (["--output", "{out}", "--engine", "local", "--workers", "2"], 2, "are for --engine ray"),
        (["--output", "{out}", "--target", "positive"], 2, "what is predicted is explained"),
        (["--output", "{out}", "--text-column", "body"], 1, "has no column 'body'; it has 'key', 'text'"),
        (["--output", "{out}", "--depth", "9"], 2, "depth 9 does not exist"),
        (["--output", "{out}", "--address", "127.0.0.1:1"], 1, "no Ray cluster answers at 127.0.0.1:1"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(run, source, tmp_path, arguments, code, complaint):
    arguments = [each.format(out=tmp_path / "out") for each in arguments]
    found = run("--input", source, *arguments)
    assert found[0] == code and complaint in " ".join(found[2].split()) and "Traceback" not in found[2]


def test_the_shards_of_another_run_are_refused(run, source, tmp_path):
    run("--input", source, "--output", tmp_path / "out")
    code, _, complaint = run("--input", source, "--output", tmp_path / "out", "--depth", 0)
    assert code == 1 and "shards of another run (depth: 3 there, 0 here)" in complaint


def interrupt(process):
    """Press Ctrl-C and return what is said; again if that was lost, as when it meets an object that is destroyed."""
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=20)[1]
    raise AssertionError("Ctrl-C did not end the command")


def test_ctrl_c_says_how_to_go_on(tmp_path):
    (tmp_path / "x.txt").write_text("a really good film\n" * 200_000)
    arguments = ["explain", "--input", tmp_path / "x.txt", "--output", tmp_path / "out", "--chunk-size", "64"]
    process = subprocess.Popen([sys.executable, "-m", "diffmask", *arguments], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "out" / "part-00000.parquet").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    said = interrupt(process)
    assert process.returncode == 130 and "the same command goes on from there" in said and "Traceback" not in said
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.startswith(".")]
