"""A report is read from what the other commands write, and says what is wrong with what they did not."""

import json

import pytest

from diffmask.bulk.manifest import write_manifest
from diffmask.bulk.rows import Row
from diffmask.bulk.shard import write_shard
from diffmask.errors import DataError, StorageError
from diffmask.page.entries import entry
from diffmask.page.sources import read_sources
from diffmask.report.plain import record
from page_samples import COMPARISON, explained, explained_image, picture


def lines(*texts: str) -> str:
    return "".join(json.dumps(record(explained(text), text)) + "\n" for text in texts)


def test_lines_of_json_are_read_in_order(tmp_path):
    (tmp_path / "a.jsonl").write_text(lines("one film", "two\u2028films", "three"))
    assert [each["text"] for each in read_sources([tmp_path / "a.jsonl"]).entries] == [
        "one film",
        "two‹U+2028›films",
        "three",
    ]


def test_a_directory_gives_its_explanations_and_comparisons_and_nothing_else(tmp_path):
    explained().save(tmp_path / "one.safetensors")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "more.jsonl").write_text(lines("one film", "two films"))
    (tmp_path / "methods.json").write_text(json.dumps(COMPARISON))
    (tmp_path / "settings.json").write_text('{"margin": 0.1}')
    (tmp_path / "notes.txt").write_text("nothing")
    found = read_sources([tmp_path])
    assert len(found.entries) == 3 and list(found.comparisons) == ["methods"]


def test_a_result_file_gives_its_explanations_with_what_they_were_made_with(tmp_path):
    content = {"study": "demo", "versions": {"torch": "1"}, "explanations": [{**record(explained(), "a"), "info": {}}]}
    (tmp_path / "demo.json").write_text(json.dumps(content))
    assert read_sources([tmp_path / "demo.json"]).entries[0]["about"]["versions"] == {"torch": "1"}


def test_an_image_is_found_beside_its_record(tmp_path):
    picture().save(tmp_path / "cat.png")
    (tmp_path / "a.jsonl").write_text(json.dumps({**record(explained_image(), "cat.png"), "image": "cat.png"}))
    assert read_sources([tmp_path / "a.jsonl"]).entries[0]["picture"].startswith("data:image/png")


@pytest.mark.parametrize("flat", [False, True])
def test_parquet_is_read(tmp_path, flat):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    row = record(explained(), '["a text that looks like JSON"]')
    row |= {key: json.dumps(row[key]) for key in ("verification", "info")}
    row["scores"] = [score for line in row["scores"] for score in line] if flat else row["scores"]
    parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / "part-0.parquet")
    (found,) = read_sources([tmp_path]).entries
    assert found["text"] == '["a text that looks like JSON"]' and len(found["scores"]) == 3
    assert found["verification"]["margin"] == 0.1


def test_a_shard_of_the_bulk_engine_is_read_and_its_errors_are_left_out(tmp_path):
    pytest.importorskip("pyarrow")
    rows = [Row(number, None, (text,)) for number, text in enumerate(("a film", "", "b"))]
    write_manifest(tmp_path, {"depth": 2}, {})
    write_shard(tmp_path / "part-00000.parquet", "run", rows, [explained("a film"), "empty", explained("b", 0.5)])
    found = read_sources([tmp_path])
    assert found.left_out == 1 and [each["text"] for each in found.entries] == ["a film", "b"]
    expected = entry(explained("a film"), "a film")
    assert all(found.entries[0][key] == expected[key] for key in ("units", "kept", "prediction", "depths", "depth"))
    for row, same in zip(found.entries[0]["scores"], expected["scores"], strict=True):
        assert row == pytest.approx(same, abs=1e-4)
    assert found.entries[1]["verification"]["within_margin"] is False
    assert found.entries[0]["about"]["settings"] == {"depth": 2} and "torch" in found.entries[0]["about"]["versions"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", "{broken", "line 1, is not JSON"),
        ("a.jsonl", '{"text": "a"}', "explanation 1: this is not a saved explanation, it has no 'units'"),
        ("a.jsonl", "[1]", "not a saved explanation"),
        ("a.jsonl", "\n", "hold no explanations"),
        ("a.json", '{"study": "digits"}', "it has no 'units'"),
        ("a.txt", "text", "has the ending '.txt'"),
        ("a.parquet", "text", "is not a Parquet file"),
        ("a.jsonl", b"\xff\xfe", "cannot be read as text"),
    ],
)
def test_a_file_that_holds_no_explanation_is_named_with_the_reason(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=said):
        read_sources([tmp_path / name])


def test_a_broken_tensor_file_a_missing_one_and_an_empty_directory_are_named(tmp_path):
    (tmp_path / "a.safetensors").write_bytes(b"cut off")
    with pytest.raises(StorageError, match="not a whole safetensors file"):
        read_sources([tmp_path / "a.safetensors"])
    with pytest.raises(DataError, match="no file"):
        read_sources([tmp_path / "none.jsonl"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no file a report can show"):
        read_sources([tmp_path / "empty"])
