import json
import math
import time
from functools import partial

import pytest

from diffmask.studies import STUDIES
from diffmask.studies.digits import (
    MARGIN,
    Job,
    Size,
    analytic_row,
    rivals,
    run_job,
    searches,
    summarise,
)
from diffmask.studies.result import write_result
from diffmask.studies.seeds import run_seeds
from diffmask.tasks.digits import DigitCounting


def row(method, depth, kl, **more):
    plain = {"js": 0.01, "kept": 1.0, "expected_kept": 1.0, "divergence": 0.0, "agreement": 1.0, "restarts": 0}
    return {"method": method, "depth": depth, "kl": kl, **plain, **more}


ROWS = [
    row("diffmask", 0, 0.0, expected_kept=0.99),
    row("diffmask", 1, 0.02, kept=0.5, expected_kept=0.5, divergence=0.04, agreement=0.98),
    row("published", 1, 0.5, kept=0.9, expected_kept=0.9, divergence=0.04, agreement=0.9),
]


def test_the_summary_has_the_figures_the_study_is_judged_by():
    summary = summarise(ROWS)
    assert summary["kl_median"] == summary["kl_worst"] == 0.02
    assert summary["depth0_kept_min"] == 0.99
    assert summary["agreement_min"] == 0.98
    assert summary["divergence_over_margin_max"] == pytest.approx(0.04 / MARGIN)
    assert (summary["good_seeds"], summary["published_good_seeds"]) == (1, 0)


def test_the_papers_erasure_row_is_reproduced_to_four_figures():
    task = DigitCounting()
    row = analytic_row(task.collate(task.test))
    assert row["kl"] == math.inf
    assert row["js"] == pytest.approx(0.26639, abs=5e-5)
    assert row["js_std"] == pytest.approx(0.1555, abs=5e-4)


TINY = Size(epochs=1, steps=20, published_steps=10, search_steps=5)
JOBS = [Job(part, 1 - number) for number, part in enumerate(("published", "diffmask"))] + [Job("rivals", 1)]


@pytest.mark.slow
def test_each_part_gives_a_row_for_each_of_its_methods():
    published, ours, others = (run_job(JOBS, TINY, number) for number in range(3))
    assert [(row["method"], row["depth"], row["seed"]) for row in published["rows"]] == [
        ("published", 0, 1),
        ("published", 1, 1),
    ]
    names = {"diffmask", "erasure-published", "truth", *searches(0, TINY)}
    assert {row["method"] for row in ours["rows"]} == names
    at_input = {f"{name}, at the input" for name in rivals(0, TINY)}
    assert {row["method"] for row in others["rows"]} == {*rivals(0, TINY), *at_input}
    assert all("model_accuracy" in row for found in (published, ours, others) for row in found["rows"])
    json.dumps(ours["figures"])


def test_a_result_file_names_everything_it_was_made_with(tmp_path):
    path = tmp_path / "x.json"
    write_result(path, "x", "diffmask study x", [0, 1], {"kl": 0.123456789, "bad": math.inf}, [{"seed": 0}])
    written = json.loads(path.read_text())
    assert {"study", "command", "commit", "versions", "hardware", "seeds", "summary", "rows"} <= written.keys()
    assert written["summary"] == {"kl": 0.123457, "bad": None}


def test_a_finished_seed_is_not_run_again(tmp_path):
    ran = []

    def one(seed):
        ran.append(seed)
        return {"seed": seed}

    assert dict(run_seeds(one, [0, 1], tmp_path, "small", jobs=1)) == {0: {"seed": 0}, 1: {"seed": 1}}
    assert dict(run_seeds(one, [0, 1, 2], tmp_path, "small", jobs=1)).keys() == {0, 1, 2}
    assert ran == [0, 1, 2]


def test_a_seed_made_with_other_settings_or_cut_off_is_run_again(tmp_path):
    ran = []

    def one(seed):
        ran.append(seed)
        return {"seed": seed}

    dict(run_seeds(one, [0, 1], tmp_path, "small", jobs=1))
    (tmp_path / "seed-001.json").write_text('{"cut')
    dict(run_seeds(one, [0, 1], tmp_path, "small", jobs=1))
    dict(run_seeds(one, [0], tmp_path, "large", jobs=1))
    assert ran == [0, 1, 1, 0]


def fail_at_two(directory, seed):
    """Fail at seed 2, but only when the others are finished: in two processes it could overtake them."""
    if seed != 2:
        return {"seed": seed}
    deadline = time.monotonic() + 60
    while len(list(directory.glob("seed-*.json"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    raise ValueError("seed 2 fails")


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failing_seed_does_not_lose_the_finished_ones(tmp_path, jobs):
    with pytest.raises(ValueError, match="seed 2 fails"):
        dict(run_seeds(partial(fail_at_two, tmp_path), [0, 1, 2], tmp_path, "x", jobs))
    assert {path.name for path in tmp_path.iterdir()} == {"seed-000.json", "seed-001.json"}


def fail_or_go_on(seed):
    if seed:
        time.sleep(600)
    raise ValueError("seed 0 fails")


def test_nobody_waits_for_the_other_seeds_when_one_fails(tmp_path):
    with pytest.raises(ValueError, match="seed 0 fails"):
        dict(run_seeds(fail_or_go_on, [0, 1], tmp_path, "x", jobs=2))


@pytest.mark.parametrize("name", STUDIES.names)
def test_every_study_of_the_table_can_be_imported(name):
    assert callable(STUDIES.get(name))
