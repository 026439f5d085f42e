"""A file is whole, ours, of the right kind, or refused in one sentence; and nothing in it is ever run."""

import errno
import os
import pickle
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file

from diffmask import storage
from diffmask.errors import StorageError
from diffmask.storage import load_tensors, save_tensors, write_file

TENSORS = {"w": torch.arange(6.0).reshape(2, 3), "half": torch.ones(2, dtype=torch.bfloat16)}

FULL_DISK = """
import resource, signal, sys, torch
from diffmask.errors import StorageError
from diffmask.storage import save_tensors
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    save_tensors(sys.argv[1], "probe", {"w": torch.zeros(10_000)}, {})
except StorageError as error:
    print(error)
"""


@pytest.fixture
def saved(tmp_path):
    save_tensors(tmp_path / "probe.safetensors", "probe", TENSORS, {"seed": 3})
    return tmp_path / "probe.safetensors"


def write_with_full_disk(path) -> str:
    done = subprocess.run([sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, check=True)
    return done.stdout


def test_what_is_saved_comes_back(saved):
    tensors, info = load_tensors(saved, "probe")
    assert tensors.keys() == TENSORS.keys()
    assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)
    assert info["seed"] == 3


def test_tensors_that_share_memory_or_are_views_are_saved_as_they_look(tmp_path):
    whole = torch.arange(6.0).reshape(2, 3)
    save_tensors(tmp_path / "x", "probe", {"a": whole, "b": whole, "c": whole.T, "d": whole[:, 1]}, {})
    loaded, _ = load_tensors(tmp_path / "x", "probe")
    assert torch.equal(loaded["c"], whole.T) and torch.equal(loaded["d"], whole[:, 1])


def test_folders_on_the_way_are_made(tmp_path):
    write_file(tmp_path / "a" / "b" / "c.txt", b"hello")
    assert (tmp_path / "a" / "b" / "c.txt").read_bytes() == b"hello"


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_truncated_file_is_refused(saved, share):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    with pytest.raises(StorageError, match=r"probe\.safetensors is not a whole safetensors file .*make it again"):
        load_tensors(saved, "probe")


def test_a_file_of_another_kind_is_refused(saved):
    with pytest.raises(StorageError, match="is a saved probe: give the path of a saved checkpoint"):
        load_tensors(saved, "checkpoint")


def test_a_file_of_another_version_is_refused(saved, monkeypatch):
    now = storage.VERSION
    monkeypatch.setattr(storage, "VERSION", now + 1)
    wanted = f"has layout version {now}, this diffmask reads version {now + 1}: install the diffmask"
    with pytest.raises(StorageError, match=wanted):
        load_tensors(saved, "probe")


def test_somebody_elses_safetensors_are_refused(tmp_path):
    save_file(TENSORS, tmp_path / "model.safetensors")
    with pytest.raises(StorageError, match="was not written by diffmask: give the path of a saved probe"):
        load_tensors(tmp_path / "model.safetensors", "probe")


@pytest.mark.parametrize("header", ["{not json", "[1, 2]", "null"])
def test_a_header_we_did_not_write_is_refused(tmp_path, header):
    save_file(TENSORS, tmp_path / "x", metadata={storage.HEADER: header})
    with pytest.raises(StorageError, match="saved probe"):
        load_tensors(tmp_path / "x", "probe")


def test_text_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("these are notes, not tensors")
    with pytest.raises(StorageError, match=r"notes\.txt is not a whole safetensors file"):
        load_tensors(tmp_path / "notes.txt", "probe")


@pytest.mark.parametrize("name", ["nothing", "."])
def test_a_missing_file_or_a_folder_is_refused_by_its_path(tmp_path, name):
    with pytest.raises(StorageError, match=f"no file {tmp_path / name}: give the path of a saved probe"):
        load_tensors(tmp_path / name, "probe")


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, path) -> None:
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("dump", [pickle.dump, torch.save])
def test_nothing_is_unpickled(tmp_path, dump):
    with open(tmp_path / "evil", "wb") as file:
        dump(Trap(tmp_path / "sprung"), file)
    with pytest.raises(StorageError):
        load_tensors(tmp_path / "evil", "probe")
    assert not (tmp_path / "sprung").exists()


def test_a_full_disk_leaves_the_old_file_whole_and_nothing_else(saved):
    message = write_with_full_disk(saved)
    assert f"could not write {saved} ({os.strerror(errno.EFBIG)})" in message
    assert "the file that was there before is whole" in message and "free some space, then run again" in message
    assert torch.equal(load_tensors(saved, "probe")[0]["w"], TENSORS["w"])
    assert os.listdir(saved.parent) == [saved.name]


def test_a_full_disk_leaves_nothing_where_nothing_was(tmp_path):
    assert "nothing was left behind" in write_with_full_disk(tmp_path / "new")
    assert os.listdir(tmp_path) == []


def test_an_interrupted_write_leaves_the_old_file_whole_and_nothing_else(saved, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save_tensors(saved, "probe", {}, {})
    assert torch.equal(load_tensors(saved, "probe")[0]["w"], TENSORS["w"])
    assert os.listdir(saved.parent) == [saved.name]


def test_an_interrupt_at_the_moment_the_file_is_made_leaves_nothing_else(saved, monkeypatch):
    def interrupt(path, mode):
        open(path, mode).close()
        raise KeyboardInterrupt

    before = saved.read_bytes()
    monkeypatch.setattr(storage, "open", interrupt, raising=False)
    with pytest.raises(KeyboardInterrupt):
        storage.write_file(saved, b"new")
    assert saved.read_bytes() == before and list(saved.parent.iterdir()) == [saved]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match=r"could not write .*nothing was left behind. Choose another place"):
        write_file(tmp_path / "file" / "below", b"x")
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_saved_file_may_be_read_by_whoever_may_read_any_other(saved):
    (saved.parent / "plain").write_text("")
    assert saved.stat().st_mode == (saved.parent / "plain").stat().st_mode


def test_a_pipe_or_a_device_is_written_to_and_stays_what_it_is(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_file(tmp_path / "pipe", b"content")
    assert os.read(reader, 100) == b"content" and (tmp_path / "pipe").is_fifo()
    os.close(reader)


def test_a_link_stays_one_and_leads_to_the_new_file(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_file(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "new"
