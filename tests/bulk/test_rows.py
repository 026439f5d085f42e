import json

import pyarrow as pa
import pytest
from pyarrow import parquet

from diffmask.bulk.rows import Cursor, Table
from diffmask.errors import DataError

TEXTS = [f"text {i}, with a comma\nand a line" for i in range(25)]


def write(path):
    """Write the same rows in the format of the file's name."""
    if path.suffix == ".parquet":
        parquet.write_table(pa.table({"key": range(25), "text": TEXTS, "other": [0.5] * 25}), path, row_group_size=7)
    elif path.suffix == ".csv":
        lines = [f'{i},"{text}",0.5' for i, text in enumerate(TEXTS)]
        path.write_text("\n".join(["key,text,other", *lines]))
    else:
        rows = [{"key": i, "text": text, "other": 0.5} for i, text in enumerate(TEXTS)]
        path.write_text("\n\n".join(map(json.dumps, rows)))
    return path


each_format = pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])


@each_format
def test_rows_come_in_order_with_number_name_and_value(tmp_path, suffix):
    table = Table(write(tmp_path / f"x{suffix}"), ("text",), "key")
    rows = list(table.rows())
    assert table.count() == 25 and [row.number for row in rows] == list(range(25))
    assert [row.values for row in rows] == [(text,) for text in TEXTS] and rows[3].name == "3"


@each_format
@pytest.mark.parametrize("start", [0, 1, 7, 13, 24, 25])
def test_reading_may_begin_at_any_row(tmp_path, suffix, start):
    table = Table(write(tmp_path / f"x{suffix}"), ("text",))
    assert [row.number for row in table.rows(start)] == list(range(start, 25))
    assert [row.values[0] for row in table.rows(start)] == TEXTS[start:]


@each_format
def test_chunks_that_are_taken_in_passing_cost_one_reading(tmp_path, suffix, monkeypatch):
    opened, rows = [], Table.rows
    monkeypatch.setattr(Table, "rows", lambda self, start: opened.append(start) or rows(self, start))
    cursor = Cursor(Table(write(tmp_path / f"x{suffix}"), ("text",)))
    for start in (4, 8, 16, 20):  # another worker takes those between
        assert [row.number for row in cursor.take(start, start + 4)] == list(range(start, start + 4))
    assert opened == [4]


@each_format
def test_a_cursor_goes_forward_and_back(tmp_path, suffix):
    cursor = Cursor(Table(write(tmp_path / f"x{suffix}"), ("text", "other")))
    for start, stop in [(0, 5), (5, 10), (20, 25), (10, 12), (0, 3)]:
        assert [row.number for row in cursor.take(start, stop)] == list(range(start, stop))
    with pytest.raises(DataError, match="changed while it was read"):
        cursor.take(20, 30)


def test_lines_of_text_are_rows(tmp_path):
    (tmp_path / "x.txt").write_text("one\n\n two \n")
    assert [row.values for row in Table(tmp_path / "x.txt", ("text",)).rows()] == [("one",), ("two",)]


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("x.jsonl", '{"text": "a"}\nnope\n', "line 2 is no JSON"),
        ("x.jsonl", "[1]\n", "line 1 is a list"),
        ("x.jsonl", '{"body": "a"}\n', "no column 'text'; it has 'body'"),
        ("x.csv", "body\nx\n", "no column 'text'; it has 'body'"),
        ("x.csv", "text\n", "has no rows"),
        ("x.parquet", "nope", "cannot be read as Parquet"),
        ("x.docx", "nope", "give a table"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_before_the_work(tmp_path, name, content, complaint):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=complaint):
        Table(tmp_path / name, ("text",)).count()


@each_format
def test_a_missing_file_is_named(tmp_path, suffix):
    with pytest.raises(DataError, match="no file"):
        Table(tmp_path / f"x{suffix}", ("text",)).count()
