import dataclasses
import json
import os

import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

import diffmask
from diffmask.bulk import local
from diffmask.bulk.run import BulkConfig, explain_file, make_plan
from diffmask.bulk.shard import write_shard
from diffmask.bulk.worker import Worker, is_full
from diffmask.errors import DiffMaskError, SettingError, StorageError, UnknownNameError

CONFIG = BulkConfig(id_column="key", chunk_size=12)


def files(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_the_shards_hold_what_explain_says_in_the_order_of_the_rows(embedded, source, tmp_path):
    tally = explain_file(embedded, source, tmp_path / "out", CONFIG)
    rows = parquet.read_table(tmp_path / "out").to_pylist()  # as other programs read it: the manifest is skipped
    given = [json.loads(line) for line in source.read_text().splitlines()]
    assert [row["row"] for row in rows] == list(range(40)) and [row["id"] for row in rows] == [r["key"] for r in given]
    assert [row["row"] for row in rows if row["error"]] == [3, 17] and tally.rows == 40 and tally.errors == 2
    good = [row for row in rows if not row["error"]]
    for row, found in zip(good, diffmask.explain(embedded, [row["text"] for row in good]), strict=True):
        checked = found.verification
        assert tuple(row["units"]) == found.units and tuple(row["depths"]) == found.depths
        assert row["kept"] == found.kept.tolist() and row["depth"] == found.depth == 3
        torch.testing.assert_close(torch.tensor(row["scores"]), found.scores.exp(), atol=1e-5, rtol=1e-4)
        assert row["divergence"] == pytest.approx(checked.divergence, abs=1e-4) and row["margin"] == checked.margin
        assert json.loads(row["original"]) == checked.original and json.loads(row["masked"]) == checked.masked
        assert row["within_margin"] == checked.within_margin and row["certified"] is False
    assert tally.within_margin == sum(row["within_margin"] for row in good)
    assert sorted(files(tmp_path / "out")) == ["_manifest.json", *(f"part-0000{i}.parquet" for i in range(4))]


def test_a_row_without_a_text_says_why(embedded, source, tmp_path):
    explain_file(embedded, source, tmp_path / "out", CONFIG)
    rows = parquet.read_table(tmp_path / "out").to_pylist()
    assert rows[3]["error"] == "no text but nothing" and "is empty" in rows[17]["error"]
    assert rows[3]["scores"] is None and rows[3]["units"] is None and rows[3]["id"] == "k3"


def test_a_stopped_run_goes_on_where_it_was(embedded, source, tmp_path, monkeypatch):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    explain_file(embedded, source, whole, CONFIG)
    work = make_plan(embedded, source, stopped, CONFIG).work()
    next(work), next(work)
    work.close()
    before = files(stopped)
    done = []
    do = Worker.do
    monkeypatch.setattr(local.Worker, "do", lambda self, chunk: done.append(chunk) or do(self, chunk))
    tally = explain_file(embedded, source, stopped, dataclasses.replace(CONFIG, chunk_size=0))
    assert done == [2, 3] and tally.rows == 40
    assert all(files(stopped)[name] == before[name] for name in before if name.startswith("part"))
    assert parquet.read_table(stopped).equals(parquet.read_table(whole))
    explain_file(embedded, source, stopped, CONFIG)
    assert done == [2, 3]  # a finished run has nothing left to do


def test_an_interrupt_within_a_chunk_leaves_no_part_of_it(embedded, source, tmp_path, monkeypatch):
    monkeypatch.setattr("diffmask.bulk.worker.write_shard", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        explain_file(embedded, source, tmp_path / "out", CONFIG)
    assert list(files(tmp_path / "out")) == ["_manifest.json"]


def test_an_interrupt_while_a_shard_is_written_leaves_no_part_of_it(embedded, source, tmp_path, monkeypatch):
    plan = make_plan(embedded, source, tmp_path / "out", CONFIG)
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        next(plan.work())
    assert list(files(tmp_path / "out")) == ["_manifest.json"]


def test_what_killed_workers_left_behind_is_tidied_away(embedded, source, tmp_path):
    plan = make_plan(embedded, source, tmp_path / "out", CONFIG)
    (tmp_path / "out" / ".part-00001.parquet.abcd").write_bytes(b"PAR1")
    (tmp_path / "out" / "._manifest.json.abcd").write_bytes(b"{")
    list(plan.work())
    plan.finish()
    assert not list((tmp_path / "out").glob(".*"))


def test_a_shard_that_is_cut_off_is_named(embedded, source, tmp_path):
    explain_file(embedded, source, tmp_path / "out", CONFIG)
    shard = tmp_path / "out" / "part-00001.parquet"
    shard.write_bytes(shard.read_bytes()[:-20])
    with pytest.raises(StorageError, match=r"part-00001\.parquet is not a whole Parquet file: remove it"):
        explain_file(embedded, source, tmp_path / "out", CONFIG)
    shard.unlink()
    assert explain_file(embedded, source, tmp_path / "out", CONFIG).rows == 40


def test_shards_that_lack_rows_are_not_called_finished(embedded, source, tmp_path):
    plan = make_plan(embedded, source, tmp_path / "out", CONFIG)
    list(plan.work())
    write_shard(plan.job.path_of(1), plan.job.run, [], [])
    with pytest.raises(StorageError, match="holds 28 rows of 40: run it again"):
        plan.finish()
    assert "finished" not in json.loads((tmp_path / "out" / "_manifest.json").read_text())


@pytest.mark.parametrize(
    "change", [{"depth": 1}, {"certified": True}, {"chunk_size": 5}, {"id_column": ""}, {"text_column": "key"}]
)
def test_the_shards_of_another_run_are_never_touched(embedded, source, tmp_path, change):
    out = tmp_path / "out"
    explain_file(embedded, source, out, CONFIG)
    before = files(out)
    with pytest.raises(StorageError, match=r"shards of another run .* nothing was overwritten"):
        explain_file(embedded, source, out, dataclasses.replace(CONFIG, **change))
    assert files(out) == before


def test_a_table_beside_the_shards_is_not_taken_for_one_of_them(embedded, source, tmp_path):
    plan = make_plan(embedded, source, tmp_path / "out", CONFIG)
    next(plan.work())
    shard = tmp_path / "out" / "part-00000.parquet"
    (tmp_path / "out" / "part-00009.parquet").write_bytes(shard.read_bytes())
    before = files(tmp_path / "out")
    with pytest.raises(StorageError, match=r"holds part-00009\.parquet, which is not of this run.*nothing was written"):
        explain_file(embedded, source, tmp_path / "out", CONFIG)
    assert files(tmp_path / "out") == before


def test_another_input_is_another_run(embedded, source, tmp_path):
    explain_file(embedded, source, tmp_path / "out", CONFIG)
    source.write_text(source.read_text().replace("good", "fine"))
    with pytest.raises(StorageError, match=r"shards of another run \(input: "):
        explain_file(embedded, source, tmp_path / "out", CONFIG)


@pytest.mark.parametrize("name", ["model", "probe", "strict"])
def test_another_model_probe_or_strictness_is_another_run(embedded, source, tmp_path, monkeypatch, name):
    explain_file(embedded, source, tmp_path / "out", CONFIG)
    other = dataclasses.replace(embedded, fingerprint="x") if name == "model" else embedded
    if name == "probe":
        weight = next(embedded.probe.parameters())
        monkeypatch.setattr(weight, "data", weight.data + 1e-3)
    elif name == "strict":
        monkeypatch.setattr(embedded.task, "strict", True)
    with pytest.raises(StorageError, match=rf"shards of another run \({name}: "):
        explain_file(other, source, tmp_path / "out", CONFIG)


def test_parquet_files_of_someone_else_are_left_alone(embedded, source, tmp_path):
    (tmp_path / "out").mkdir()
    parquet.write_table(pa.table({"a": [1]}), tmp_path / "out" / "part-00000.parquet")
    before = files(tmp_path / "out")
    with pytest.raises(StorageError, match="not of this run"):
        explain_file(embedded, source, tmp_path / "out", CONFIG)
    assert files(tmp_path / "out") == before


def test_a_shard_put_there_by_another_run_is_refused(embedded, source, tmp_path):
    explain_file(embedded, source, tmp_path / "one", CONFIG)
    explain_file(embedded, source, tmp_path / "two", dataclasses.replace(CONFIG, depth=0))
    (tmp_path / "one" / "part-00001.parquet").write_bytes((tmp_path / "two" / "part-00001.parquet").read_bytes())
    with pytest.raises(StorageError, match=r"part-00001\.parquet was written by another run"):
        explain_file(embedded, source, tmp_path / "one", CONFIG)


def test_certified_rows_hold_their_margin(embedded, source, tmp_path):
    tally = explain_file(embedded, source, tmp_path / "out", dataclasses.replace(CONFIG, certified=True))
    assert tally.within_margin == tally.rows - tally.errors == 38


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), MemoryError()])
def test_out_of_memory_makes_batches_smaller_for_good(embedded, source, tmp_path, monkeypatch, error):
    from diffmask.explaining import explainer

    explain, sizes = explainer.explain, []

    def small_machine(*args, batch_size, **settings):
        sizes.append(batch_size)
        if batch_size > 4:
            raise error
        return explain(*args, batch_size=batch_size, **settings)

    monkeypatch.setattr(explainer, "explain", small_machine)
    assert explain_file(embedded, source, tmp_path / "out", CONFIG).errors == 2
    assert sizes == [64, 5, 2, 2, 2, 2]


def test_a_single_row_that_does_not_fit_ends_the_run_with_a_sentence(embedded, source, tmp_path, monkeypatch):
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("diffmask.explaining.explainer.explain", full)
    with pytest.raises(DiffMaskError, match="ran out of memory with a single row at a time"):
        explain_file(embedded, source, tmp_path / "out", CONFIG)


def test_only_memory_errors_mean_that_memory_ran_out():
    assert is_full(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes"))
    assert not is_full(RuntimeError("shapes do not match"))


def test_one_bad_row_does_not_take_its_batch_with_it(embedded, source, tmp_path, monkeypatch):
    monkeypatch.setattr(embedded.task, "strict", True)
    source.write_text(source.read_text() + "\n" + json.dumps({"key": "long", "text": "word " * 200}))
    explain_file(embedded, source, tmp_path / "out", CONFIG)
    rows = parquet.read_table(tmp_path / "out").to_pylist()
    assert [row["row"] for row in rows if row["error"]] == [3, 17, 40] and "the model takes 128" in rows[40]["error"]


def test_of_many_texts_that_are_cut_a_few_are_named(embedded, tmp_path, caplog):
    (tmp_path / "x.txt").write_text("".join("word " * (150 + i) + "\n" for i in range(20)))
    explain_file(embedded, tmp_path / "x.txt", tmp_path / "out", BulkConfig(chunk_size=8))
    assert len([record for record in caplog.records if "cut off" in record.message]) == 5


def test_a_worker_remembers_no_text(embedded, source, tmp_path):
    explain_file(embedded, source, tmp_path / "out", CONFIG)
    assert not embedded.task._seen


def test_wrong_settings_are_named(embedded, source, tmp_path):
    with pytest.raises(UnknownNameError, match="no engine named 'spark'"):
        explain_file(embedded, source, tmp_path / "out", engine="spark")
    with pytest.raises(SettingError, match="batch_size must be at least 1"):
        BulkConfig(batch_size=0)
    with pytest.raises(StorageError, match="is a file: give a directory"):
        explain_file(embedded, source, source)
