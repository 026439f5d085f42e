"""Where commands write: never over what they read, nor under an ending that promises something else."""

import json
import os
import signal
from pathlib import Path

import pytest

from diffmask.cli.common import check_place, waiting
from diffmask.errors import StorageError

LONG = "good movie " * 100
ROWS = "text\na good film\na dull one\n"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Work in an empty directory."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def table(tmp_path):
    """A table, and another name for it."""
    (tmp_path / "rows.csv").write_text(ROWS)
    (tmp_path / "other.jsonl").symlink_to(tmp_path / "rows.csv")
    return tmp_path / "rows.csv"


@pytest.mark.parametrize("output", ["rows.csv", "other.jsonl", "./rows.csv"])
@pytest.mark.parametrize("command", ["explain", "compare"])
def test_what_is_read_is_not_written_over(run, table, command, output):
    code, _, complaint = run(command, "--input", "rows.csv", "--output", output)
    assert code == 1 and "is what is read, and would be lost: name another file with --output" in complaint
    assert table.read_text() == ROWS


def test_a_report_is_not_written_over_its_source(run, tmp_path):
    (tmp_path / "found.jsonl").write_text("{}")
    code, _, complaint = run("report", "found.jsonl", "--output", "found.jsonl")
    assert code == 1 and "found.jsonl is what is read" in complaint and (tmp_path / "found.jsonl").read_text() == "{}"


def test_a_long_text_is_no_place(tmp_path):
    output = tmp_path / "out.jsonl"
    output.touch()
    check_place(output, read=[Path("a" * 5000), Path("\0")])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["explain", "fine", "--output", "found.parquet"],
            "would hold JSON lines, and its ending says otherwise:",
        ),
        (["explain", "--input", "rows.csv", "--output", "found.csv"], "write a .jsonl file"),
        (
            ["explain", "--input", "rows.csv", "--output", "found.jsonl", "--id-column", "text"],
            "found.jsonl would hold a directory of shards, and its ending says otherwise: name a directory, or",
        ),
        (["report", "rows.csv", "--output", "found.json"], "found.json would hold a page"),
        (["compare", "fine", "--resume", "rows.csv"], "which is a file: name another place with --resume"),
        (["demo", "--output", "rows.csv"], "which is a file: name another place with --output"),
        (["study", "digits", "--output", "rows.csv/there.json"], "which is a file: name another place with --output"),
    ],
)
def test_a_place_that_cannot_be_is_refused_before_anything_is_loaded(run, table, monkeypatch, arguments, said):
    monkeypatch.setattr("diffmask.cli.common.import_engines", lambda: pytest.fail("something was loaded"))
    code, _, complaint = run(*arguments)
    assert code == 1 and said in complaint


def test_many_texts_that_are_cut_are_told_of_briefly_and_counted(run, tmp_path, caplog):
    (tmp_path / "long.txt").write_text("".join(f"number {i} {LONG}\n" for i in range(9)) + "a short one\n")
    code, _, complaint = run("explain", "--input", "long.txt", "--output", "found.jsonl")
    assert code == 0 and caplog.text.count("are cut off and not explained") == 5
    assert "9 of 10 texts were longer than the model takes: what was cut is not explained" in complaint
    records = [json.loads(line) for line in (tmp_path / "found.jsonl").read_text().splitlines()]
    assert [record["cut"] > 0 for record in records] == [True] * 9 + [False]
    assert records[0]["info"]["cut"] == records[0]["cut"]  # which reports show


def test_a_text_that_is_cut_says_so_where_it_is_shown(run):
    assert "tokens that the model does not take, and nobody explained" in run("explain", LONG)[1]
    assert "nobody explained" not in run("explain", "fine")[1]


def test_texts_count_from_one_in_every_error(run):
    code, _, complaint = run("explain", "a good film", "bad", "--target", "positive")
    assert code == 2 and "example 2 was asked about 'positive'" in complaint


@pytest.fixture
def stoppable():
    """Let SIGTERM stop as Ctrl-C does, as the command line has it."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGTERM, before)


def test_what_was_told_to_go_on_after_a_hang_up_goes_on(stoppable):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with waiting():
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopping_waits_until_what_must_be_whole_is_whole(stoppable, number):
    done = False
    with pytest.raises(KeyboardInterrupt), waiting():
        os.kill(os.getpid(), number)
        done = True
    assert done and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_option_says_where_it_goes(tmp_path):
    with pytest.raises(StorageError, match=r"is a directory: name a file in it, or elsewhere, with --output"):
        check_place(tmp_path)
