"""Which finished runs are used again, and what is said of who made them."""

import json

import pytest

from diffmask.errors import DataError
from diffmask.studies import seeds
from diffmask.studies.result import write_result
from diffmask.studies.seeds import keep_fuller, lay_out, made_with, run_seeds, with_makers


class Run:
    """Counts the seeds it ran."""

    def __init__(self):
        self.ran = []

    def __call__(self, seed):
        self.ran.append(seed)
        return {"from": "here", "seed": seed}


@pytest.fixture
def run():
    return Run()


def foreign(directory, seed, **changes):
    """Leave the file of a run that another machine made."""
    maker = {"settings": "long", "commit": "abc", "versions": {"torch": "1"}, "hardware": {"gpus": ["H200"]}, **changes}
    path = directory / f"seed-{seed:03d}.json"
    path.write_text(json.dumps({**maker, "result": {"from": "there", "seed": seed}}))
    return maker


def test_taking_over_uses_what_is_there_whatever_made_it(tmp_path, run):
    foreign(tmp_path, 0)
    foreign(tmp_path, 2, commit="def")
    found = dict(run_seeds(run, range(3), tmp_path, "long", 1, take_over=True))
    assert {seed: result["from"] for seed, result in found.items()} == {0: "there", 1: "here", 2: "there"}
    assert run.ran == [1]


def test_without_taking_over_a_foreign_file_is_run_again(tmp_path, run):
    foreign(tmp_path, 0)
    assert dict(run_seeds(run, [0], tmp_path, "long", 1)) == {0: {"from": "here", "seed": 0}}
    assert made_with(tmp_path, 1)[0]["commit"] != "abc"


@pytest.mark.parametrize("what", ["commit", "versions", "hardware"])
def test_another_commit_version_or_machine_makes_another_run(tmp_path, run, monkeypatch, what):
    dict(run_seeds(run, [0], tmp_path, "x", 1))
    monkeypatch.setattr(seeds, what, lambda: "another")
    dict(run_seeds(run, [0], tmp_path, "x", 1))
    assert run.ran == [0, 0]


def test_other_settings_make_another_run_and_the_same_do_not(tmp_path, run):
    for settings in ("small", "small", "large"):
        dict(run_seeds(run, [0], tmp_path, settings, 1))
    assert run.ran == [0, 0]


@pytest.mark.parametrize("content", ['{"cut', "{}", '{"settings": "long"}'])
def test_a_file_without_a_result_is_run_also_when_taking_over(tmp_path, run, content):
    (tmp_path / "seed-000.json").write_text(content)
    dict(run_seeds(run, [0], tmp_path, "long", 1, take_over=True))
    assert run.ran == [0]


def test_every_maker_is_listed_once(tmp_path):
    one = foreign(tmp_path, 0)
    other = foreign(tmp_path, 1, hardware={"gpus": []})
    foreign(tmp_path, 2)
    assert made_with(tmp_path, 3) == [one, other]


def test_runs_made_here_have_one_maker_with_settings_commit_versions_and_hardware(tmp_path, run):
    dict(run_seeds(run, range(3), tmp_path, "small", 1))
    (maker,) = made_with(tmp_path, 3)
    assert maker.keys() == {"settings", "commit", "versions", "hardware"} and maker["settings"] == "small"


def test_only_the_runs_that_count_are_asked_who_made_them(tmp_path):
    makers = [foreign(tmp_path, seed, commit=str(seed)) for seed in range(3)]
    assert made_with(tmp_path, 2) == makers[:2]


def test_no_jobs_sum_up_what_is_finished_where_a_study_can(tmp_path, run):
    foreign(tmp_path, 1)
    found = run_seeds(run, range(3), tmp_path, "long", 0, take_over=True, partial=True)
    assert [seed for seed, _ in found] == [1] and not run.ran


@pytest.mark.parametrize("finished", [(), (1,)])
def test_no_jobs_and_runs_that_are_missed_say_so(tmp_path, run, finished):
    for seed in finished:
        foreign(tmp_path, seed)
    with pytest.raises(DataError, match=f"{3 - len(finished)} of 3 runs are not finished.*--jobs 1"):
        list(run_seeds(run, range(3), tmp_path, "long", 0, take_over=True, partial=not finished))


def test_a_study_goes_on_from_its_result_file_where_the_runs_are_lost(tmp_path, run):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    makers = {0: foreign(first, 0), 2: foreign(first, 2, commit="def"), 3: foreign(first, 3)}
    done = dict(run_seeds(run, range(4), first, "long", 0, take_over=True, partial=True))
    path = tmp_path / "result.json"
    write_result(path, "some", "command", range(4), {}, [], **with_makers(first, done))
    lay_out(second, path)
    assert dict(run_seeds(run, range(4), second, "long", 0, take_over=True, partial=True)) == done
    assert [made_with(second, [number]) for number in makers] == [[maker] for maker in makers.values()]
    (second / "seed-000.json").write_text("newer")
    lay_out(second, path)
    assert (second / "seed-000.json").read_text() == "newer"


def test_a_fuller_result_is_not_replaced(tmp_path):
    path = tmp_path / "result.json"
    keep_fuller(path, 0)
    path.write_text(json.dumps({"jobs": [{"number": 0}, {"number": 1}]}))
    keep_fuller(path, 2)
    with pytest.raises(DataError, match=r"has 2 finished runs, and 1 would take their place.*--take-over"):
        keep_fuller(path, 1)


@pytest.mark.parametrize("text", [None, "{", "[]", '{"jobs": [{"seed": 0}]}'])
def test_without_a_result_file_of_numbered_runs_nothing_is_laid_out(tmp_path, text):
    path, place = tmp_path / "result.json", tmp_path / "runs"
    if text is not None:
        path.write_text(text)
    lay_out(place, path)
    assert not place.exists()
