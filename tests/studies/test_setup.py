"""Where a study finds its data and its encoder, and what it says when they are not there."""

from pathlib import Path

import pytest

from diffmask.errors import DataError
from diffmask.studies.setup import Setup


@pytest.fixture(autouse=True)
def nothing_in_the_environment(monkeypatch):
    monkeypatch.delenv("DIFFMASK_DATA", raising=False)


def setup(**given):
    return Setup(1, Path("out.json"), **given)


def test_data_is_found_below_the_directory_that_is_given(tmp_path):
    (tmp_path / "sst").mkdir()
    assert setup(data=tmp_path).find_data("sst") == tmp_path / "sst"


def test_data_is_found_below_the_directory_that_the_environment_names(tmp_path, monkeypatch):
    (tmp_path / "sst").mkdir()
    monkeypatch.setenv("DIFFMASK_DATA", str(tmp_path))
    assert setup().find_data("sst") == tmp_path / "sst"


def test_what_is_given_wins_over_the_environment(tmp_path, monkeypatch):
    for name in ("given", "named"):
        (tmp_path / name / "sst").mkdir(parents=True)
    monkeypatch.setenv("DIFFMASK_DATA", str(tmp_path / "named"))
    assert setup(data=tmp_path / "given").find_data("sst") == tmp_path / "given" / "sst"


def test_data_that_is_not_given_is_asked_for():
    wanted = "needs a directory 'sst' in the data directory, which is not given: name it with --data or DIFFMASK_DATA"
    with pytest.raises(DataError, match=wanted):
        setup().find_data("sst")


def test_a_directory_without_the_data_is_named(tmp_path):
    with pytest.raises(
        DataError, match=rf"a directory 'squad' in the data directory, which is {tmp_path}: name it with"
    ):
        setup(data=tmp_path).find_data("squad")


def test_an_encoder_is_a_directory_with_a_config(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    assert setup(encoder=tmp_path).find_encoder() == tmp_path


@pytest.mark.parametrize("given", [False, True])
def test_an_encoder_that_is_missing_is_asked_for(tmp_path, given):
    which = tmp_path if given else "not given"
    wanted = rf"starts from a pretrained model, which is {which}: name a directory .*from_pretrained reads with --encod"
    with pytest.raises(DataError, match=wanted):
        setup(encoder=tmp_path if given else None).find_encoder()


def test_a_small_run_keeps_its_work_apart():
    assert setup().work("digits") == Path("runs/digits") != setup(small=True).work("digits")
