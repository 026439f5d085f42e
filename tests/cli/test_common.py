"""What the commands share: a stop that leaves no traceback, and outputs that are looked at before the work."""

import subprocess
import sys

import pytest
import typer

from diffmask.cli import main as command
from diffmask.cli.common import STOPPED, check_place, number_or_name, stoppable, was_interrupted
from diffmask.errors import StorageError


def interrupted_import():
    """Raise what transformers raises when Ctrl-C comes while it imports."""
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt as error:
        raise ModuleNotFoundError("Could not import module 'Bert'") from error


def test_ctrl_c_while_a_package_is_imported_is_a_stop_and_no_failure(capsys):
    with pytest.raises(typer.Exit) as done, stoppable("go on so"):
        interrupted_import()
    assert done.value.exit_code == STOPPED and capsys.readouterr().err == "stopped: go on so\n"


def test_a_package_that_is_missing_is_no_stop():
    with pytest.raises(ImportError), stoppable("go on so"):
        raise ImportError("no such package")
    assert not was_interrupted(None)


def test_ctrl_c_while_the_command_line_itself_is_imported_leaves_no_traceback():
    code = (
        "import sys\nfrom diffmask.__main__ import main\nclass Stop:\n def find_spec(*_): raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Stop)\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (STOPPED, "")


def test_an_output_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    (tmp_path / "file").touch()
    for fine in (None, tmp_path / "file", tmp_path / "new" / "file"):
        check_place(fine)
    check_place(tmp_path, directory=True)
    with pytest.raises(StorageError, match="is a directory: name a file in it"):
        check_place(tmp_path)
    with pytest.raises(StorageError, match=r"nothing can be put into .*file, which is a file: name another place"):
        check_place(tmp_path / "file" / "below")
    with pytest.raises(StorageError, match="name another place with --output"):
        check_place(tmp_path / "file", directory=True)


def test_what_is_typed_is_a_number_or_a_name():
    assert [number_or_name(typed) for typed in ("3", "-1", "layer.1", "-", "²")] == [3, -1, "layer.1", "-", "²"]


@pytest.mark.parametrize(
    "asked",
    [
        ["explain", "Dull."],
        ["explain", "Dull.", "--kind", "hidden"],
        ["explain", "--input", "texts.txt", "--output", "out"],
        ["compare", "Dull."],
        ["serve", "embedded", "--port", "0"],
    ],
)
def test_a_model_without_its_run_is_refused_and_not_left_aside(asked, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("Dull.\n")
    monkeypatch.setattr(sys, "argv", ["diffmask", *asked, "--model", "./mine", "--device", "cpu"])
    with pytest.raises(SystemExit) as done:
        command.main()
    said = capsys.readouterr().err
    assert done.value.code == 2 and "comes with its own model and takes no model, got './mine'" in said
    assert "`diffmask fit MODEL`, then name what that wrote, with --run" in said and not (tmp_path / "out").exists()
