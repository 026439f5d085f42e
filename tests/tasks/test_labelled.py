"""Tables of texts in any of their forms, and what is said of broken ones."""

import gzip
import lzma

import pytest

from diffmask.errors import DataError
from diffmask.tasks.labelled import class_number, read_rows

LINES = '{"text": "a, b", "label": 1}\n\n{"text": "c", "label": 0}\n'
TABLE = 'text,label\n"a, b",1\nc,0\n'


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.jsonl", LINES.encode()),
        ("x.jsonl.xz", lzma.compress(LINES.encode())),
        ("x.jsonl.gz", gzip.compress(LINES.encode(), mtime=0)),
        ("x.csv", TABLE.encode()),
        ("X.CSV.GZ", gzip.compress(TABLE.encode(), mtime=0)),
        ("x.csv", TABLE.encode("utf-8-sig")),
        ("x.csv", TABLE.replace("\n", ",\r\n").encode()),
        ("x.ndjson", LINES.encode()),
        ("x.tsv", b"text\tlabel\na, b\t1\nc\t0\n"),
    ],
)
def test_a_table_is_read_in_any_form(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    rows = read_rows(tmp_path / name, ("text", "label"))
    assert [(row["text"], int(row["label"])) for row in rows] == [("a, b", 1), ("c", 0)]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("x.csv", "review,label\na,1\n", "has no column 'text'; it has 'review', 'label': say which columns to read"),
        ("x.csv", "review,stars\na,1\n", "no column 'text', 'label'; it has 'review', 'stars'"),
        ("x.csv", "text,label\na,1\nb\n", "row 2 has nothing in column 'label': fill it"),
        ("x.csv", "text,label\na, b,1\n", "line 2 has more values than there are columns: put quotation marks around"),
        ("x.csv", "text,text,label\na,b,1\n", "has 2 columns 'text': rename all but the one to read"),
        ("x.csv", "", "has no rows: write at least one"),
        ("x.jsonl", '{"text": "a"}', "no column 'label'; it has 'text'"),
        ("x.jsonl", '{"text": "a", "label": 1}\n{oops', "line 2 is no JSON"),
        ("x.jsonl", "[1]", "line 1 is a list"),
        ("x.csv", "text,label\n", "has no rows"),
        ("x.txt", "a", "has one text on each line, and 'text', 'label' are asked for"),
        ("x.doc", "a", r"x.doc is no table of texts that can be read: give a table \(.csv"),
    ],
)
def test_what_is_wrong_with_a_table_is_named(tmp_path, name, data, message):
    (tmp_path / name).write_text(data)
    with pytest.raises(DataError, match=message):
        read_rows(tmp_path / name, ("text", "label"))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"no file .*none\.csv"):
        read_rows(tmp_path / "none.csv", ("text",))


def test_a_very_long_field_is_read(tmp_path):
    (tmp_path / "x.csv").write_text("text\n" + "a " * 200_000)
    assert len(read_rows(tmp_path / "x.csv", ("text",))[0]["text"]) > 300_000


def test_labels_are_class_numbers():
    assert class_number("1.0", "row") == class_number(1, "row") == 1
    with pytest.raises(DataError, match="column 'label': a label is a class number 0, 1, …, got 'good'"):
        class_number("good", "column 'label'")
