"""Texts and images from where people keep them, and what is said when they are not there."""

import json
import sys
import types

import pytest

from diffmask.errors import DataError, DiffMaskError, SettingError
from diffmask.tasks.readers import DataConfig, read_examples, read_images, read_source, read_texts, split

ROWS = [{"text": "one", "other": "uno"}, {"text": "two", "other": "dos"}]


def write(path, rows=ROWS):
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".txt":
        path.write_text("\n\n".join(row["text"] for row in rows))
    elif path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        mark = "\t" if path.suffix == ".tsv" else ","
        path.write_text("\n".join(mark.join(row) for row in [list(rows[0]), *(list(row.values()) for row in rows)]))
    return path


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "txt", "parquet"])
def test_texts_come_from_any_kind_of_table(kind, tmp_path):
    assert read_texts(write(tmp_path / f"t.{kind}")) == ["one", "two"]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_pairs_come_from_two_columns_and_a_missing_one_names_those_there_are(kind, tmp_path):
    path = write(tmp_path / f"t.{kind}")
    assert read_texts(path, "text", "other") == [("one", "uno"), ("two", "dos")]
    with pytest.raises(DataError, match="no column 'body'; it has 'text', 'other'"):
        read_texts(path, "body")


def test_a_limit_takes_the_first(tmp_path):
    assert read_examples(write(tmp_path / "t.csv"), DataConfig(limit=1), images=False) == ["one"]


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.csv", b"text\n\xff\xfe", "cannot be read as a table"),
        ("a.csv.gz", b"junk", "cannot be read as a table"),
        ("a.jsonl", b"{", "line 1 is no JSON"),
        ("a.jsonl", b'{"text": 3}', "row 1 has no text in column 'text' but 3"),
        ("a.csv", b"text,b\n ,x", "row 1 has no text in column 'text'"),
        ("a.jsonl", b'{"text": null}', "row 1 has nothing in column 'text'"),
        ("a.txt", b"\n \n", "has no rows: write at least one text"),
        ("a.txt", b"\xff", "cannot be read as a table of texts"),
        ("a.parquet", b"junk", "cannot be read as Parquet"),
        ("a.doc", b"junk", "is no table of texts"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, name, content, complaint):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=complaint):
        read_texts(tmp_path / name)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "./a", "a.txt", "x/y/z"])
def test_a_file_that_is_not_there_is_never_looked_for_as_a_data_set(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match="no file"):
        read_source(name, ["text"])


def test_a_folder_holds_no_texts_and_a_list_no_pairs(tmp_path):
    with pytest.raises(DataError, match="is a directory, and this task reads texts"):
        read_texts(tmp_path)
    with pytest.raises(DataError, match="'text', 'other' are asked for"):
        read_texts(write(tmp_path / "a.txt"), "text", "other")


def test_images_come_from_a_folder_a_file_or_a_column(tmp_path):
    from PIL import Image

    Image.new("RGB", (2, 2)).save(tmp_path / "a.png")
    (tmp_path / "t.csv").write_text("image\na.png\n")
    assert read_images(tmp_path) == read_images(tmp_path / "a.png") == read_images(tmp_path / "t.csv")
    content = (tmp_path / "a.png").read_bytes()
    write(
        tmp_path / "t.parquet", [{"image": {"bytes": content, "path": None}}, {"image": {"bytes": None, "path": "b"}}]
    )
    assert read_images(tmp_path / "t.parquet") == [content, tmp_path / "b"]


class Rows(list):
    column_names = ("text", "other")


def test_a_data_set_is_loaded_by_name_config_and_split(monkeypatch):
    asked = []

    def load_dataset(name, config, split):
        asked.append((name, config, split))
        return Rows(ROWS)

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    assert read_texts("imdb") == read_texts("someone/glue:sst2@validation") == ["one", "two"]
    assert asked == [("imdb", None, "train"), ("someone/glue", "sst2", "validation")]
    with pytest.raises(DataError, match="the data set imdb has no column 'body'; it has 'text', 'other'"):
        read_texts("imdb", "body")


def test_a_data_set_that_cannot_be_loaded_is_one_sentence(monkeypatch):
    def load_dataset(name, config, split):
        raise ConnectionError("no route\nmore")

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    with pytest.raises(DataError, match=r"no data set of that name could be loaded \(no route\): give"):
        read_texts("imdb")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DiffMaskError, match=r"there is no file imdb; .* pip install 'diffmask\[tables\]'"):
        read_texts("imdb")


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "a.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DiffMaskError, match="needs pyarrow: pip install"):
        read_texts(tmp_path / "a.parquet")


def test_a_split_is_always_the_same_and_loses_nothing():
    train, held = split(list(range(50)), 0.1, seed=3)
    assert (train, held) == split(list(range(50)), 0.1, seed=3) and sorted(train + held) == list(range(50))
    assert len(held) == 5 and held != split(list(range(50)), 0.1, seed=4)[1]
    with pytest.raises(DataError, match="cannot be parted"):
        split([1], 0.1, seed=0)
    with pytest.raises(SettingError, match=r"data\.share must lie between 0 and 1"):
        DataConfig(share=1.0)
