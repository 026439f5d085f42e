"""The Ray engine on a real Ray, started once for all tests of this file."""

import dataclasses
import os
import socket
import subprocess
import sys
import time

import pytest
from pyarrow import parquet

from diffmask.bulk import cluster
from diffmask.bulk.cluster import check_address, connected
from diffmask.bulk.on_ray import Actor, pool_size
from diffmask.bulk.run import BulkConfig, explain_file, make_plan
from diffmask.errors import DataError, DiffMaskError, SettingError

CONFIG = BulkConfig(id_column="key", chunk_size=4)


@pytest.fixture(scope="module")
def ray():
    with connected("local") as ray:
        yield ray


def loader(marker, killed_at):
    """Return how workers load the model; one of them is made to be killed in the midst of its work."""
    here = os.getpid()

    def load():
        from diffmask.explaining.embedded import load_embedded

        fitted = load_embedded()
        if os.getpid() == here:
            return fitted
        try:
            marker.open("x").close()
        except FileExistsError:
            return fitted
        collate, calls = fitted.task.collate, []

        def deadly(examples):
            calls.append(1)
            if len(calls) == killed_at:
                marker.write_text("killed")
                os._exit(9)
            return collate(examples)

        fitted.task.collate = deadly
        return fitted

    return load


def test_a_killed_worker_costs_no_row_and_repeats_none(ray, embedded, source, tmp_path):
    marker, out = tmp_path / "marker", tmp_path / "out"
    tally = explain_file(loader(marker, killed_at=2), source, out, CONFIG, engine="ray", workers=1)
    explain_file(embedded, source, tmp_path / "local", CONFIG)
    found, local = parquet.read_table(out), parquet.read_table(tmp_path / "local")
    assert marker.read_text() == "killed" and tally.rows == 40 and tally.errors == 2
    assert found["row"].to_pylist() == list(range(40))
    names = ["row", "id", "text", "units", "depths", "kept", "prediction", "within_margin", "certified", "error"]
    assert found.select(names).equals(local.select(names)) and found.schema.equals(local.schema)
    assert sorted(path.name for path in out.iterdir())[0] == "_manifest.json"  # and nothing hidden before it


def test_what_goes_wrong_in_a_worker_is_one_sentence_here(ray, source, tmp_path):
    here = os.getpid()

    def load():
        from diffmask.errors import DataError
        from diffmask.explaining.embedded import load_embedded

        if os.getpid() != here:
            raise DataError("this machine has no such model")
        return load_embedded()

    with pytest.raises(DiffMaskError, match=r"^this machine has no such model$"):
        explain_file(load, source, tmp_path / "out", CONFIG, engine="ray", workers=1)


def test_a_ray_of_our_own_listens_to_this_machine_only(ray):
    assert ray.get_runtime_context().gcs_address.startswith("127.0.0.1:")


def test_it_does_so_even_where_ray_was_imported_before_to_join_another():
    code = """
from diffmask.bulk.cluster import connected
from diffmask.errors import DiffMaskError
try:
    with connected("127.0.0.1:1"):
        pass
except DiffMaskError:
    with connected("local") as ray:
        print(ray.get_runtime_context().gcs_address)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout.startswith("127.0.0.1:"), done.stdout + done.stderr


def test_a_ray_that_is_joined_later_is_not_kept_to_this_machine(ray, monkeypatch):
    from ray._private import ray_constants

    monkeypatch.setattr(ray_constants, "ENABLE_RAY_CLUSTER", True)
    monkeypatch.delenv(cluster.ALONE, raising=False)
    with cluster._loopback():
        assert not ray_constants.ENABLE_RAY_CLUSTER and os.environ[cluster.ALONE] == "0"
    assert ray_constants.ENABLE_RAY_CLUSTER and cluster.ALONE not in os.environ


def test_a_chunk_that_kills_every_worker_is_given_up(embedded, source, tmp_path):
    job = make_plan(embedded, source, tmp_path / "out", CONFIG).job
    (job.output / ".part-00002.abc").write_text("xxx")
    row = Actor(job, "abc")({"chunk": [2]})
    assert "the chunk of rows 8 to 11 killed 3 workers in turn" in row["error"][0] and row["tally"] == [""]


def test_a_bug_in_a_worker_names_its_rows(embedded, source, tmp_path):
    job = make_plan(embedded, source, tmp_path / "out", CONFIG).job
    row = Actor(dataclasses.replace(job, load=lambda: 1 / 0), "abc")({"chunk": [0]})
    assert "failed on the chunk of rows 0 to 3 (ZeroDivisionError" in row["error"][0]


def test_workers_are_as_many_as_there_are_devices_and_chunks():
    assert pool_size(4, "GPU", None, 100) == 4 and pool_size(4, "GPU", None, 2) == 2 and pool_size(4, "CPU", 3, 9) == 3
    with pytest.raises(SettingError, match="5 workers were asked for, and this Ray has 4 GPUs"):
        pool_size(4, "GPU", 5, 100)


def test_an_address_where_nothing_listens_is_refused_at_once():
    began = time.monotonic()
    with pytest.raises(DiffMaskError, match=r"no Ray cluster answers at 127.0.0.1:1 .*leave it out to start Ray"):
        check_address("127.0.0.1:1")
    assert time.monotonic() - began < cluster.REACH + 1


def test_an_address_that_never_answers_is_given_up(monkeypatch):
    monkeypatch.setattr(cluster, "ANSWER", 1)
    with socket.create_server(("127.0.0.1", 0)) as mute, pytest.raises(DiffMaskError, match="nothing came back in 1 s"):
        check_address(f"127.0.0.1:{mute.getsockname()[1]}")


def test_a_bad_file_is_refused_before_ray_starts(embedded, tmp_path):
    with pytest.raises(DataError, match="no file"):
        make_plan(embedded, tmp_path / "nope.csv", tmp_path / "out", CONFIG, engine="ray")
