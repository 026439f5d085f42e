"""The patch-counting study: its scores where the score is known, its settings, and a run from end to end."""

import json
import math
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from diffmask.errors import DataError
from diffmask.gates.probe import make_probe
from diffmask.models.adapter import Adapter
from diffmask.models.sites import Site
from diffmask.studies import patch_counting
from diffmask.studies.patch_counting import (
    OURS,
    OWN,
    RELEASED,
    RIGHT,
    RIVALS,
    Job,
    Size,
    all_jobs,
    config_of,
    summarise,
)
from diffmask.studies.patch_counting_scores import (
    as_mask,
    judge_gap,
    judge_mask,
    judge_prediction,
    judge_ranking,
    judge_recoloured,
    smallest_sets,
)
from diffmask.studies.patch_counting_shown import as_lines, shown_grids
from diffmask.studies.setup import Setup
from diffmask.tasks.patch_counting import PatchCounting
from diffmask.training.step import look

TASK = PatchCounting(train=30, validation=10, test=200)
RED = TASK.red(TASK.test)
TINY = Size(model_steps=5, steps=4, published_steps=4, test=20, oracle=4, starts=(0.9,))


class Counter(nn.Module):
    """Counts red patches for sure: what is red of a patch is its first feature."""

    device = torch.device("cpu")

    def __init__(self) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, 3, 4, 4, bias=False)
        with torch.no_grad():
            self.cut.weight.copy_(torch.eye(3).view(3, 3, 1, 1).expand(3, 3, 4, 4) / 16)

    def forward(self, pixel_values):
        red, *others = self.cut(pixel_values).flatten(2).unbind(1)
        count = ((red > 0) & (others[0] < 0) & (others[1] < 0)).float().sum(1, keepdim=True)
        return SimpleNamespace(logits=-20 * (count - torch.arange(10)).abs())


def counter():
    model = Counter()
    return Adapter(model, [Site("cut", model.cut, layout="grid")])


def seen(count=20):
    return look(counter(), TASK, TASK.collate(TASK.test[:count]))


NOT_RED, IS_RED = torch.tensor([-1.0, 1.0, -1.0]), torch.tensor([1.0, -1.0, -1.0])


@pytest.mark.parametrize(("scores", "side"), [(RED, "red"), (~RED, "others")])
def test_a_perfect_ranking_is_perfect_on_either_side_if_it_is_one_for_all(scores, side):
    _, found = judge_ranking(scores.float(), RED)
    assert found == {"auroc": 1.0, "auroc_free": 1.0, "orientation": side}


def test_lighting_up_the_minority_is_perfect_only_by_the_looser_rule():
    minority = torch.where(RED.sum(1, keepdim=True) <= 4, RED, ~RED)
    _, found = judge_ranking(minority.float(), RED)
    assert found["auroc_free"] == 1.0 and found["auroc"] == 0.5


def test_chance_is_a_half_and_about_seven_tenths():
    noise = torch.rand(200, 9, generator=torch.Generator().manual_seed(0))
    _, found = judge_ranking(noise, RED)
    assert found["auroc"] == pytest.approx(0.5, abs=0.05) and found["auroc_free"] == pytest.approx(0.705, abs=0.04)


def test_masks_are_compared_with_the_side_the_ranking_settled_on():
    for truth in (RED, ~RED):
        sides, _ = judge_ranking(truth.float(), RED)
        assert judge_mask(truth, sides) == {"exact": 1.0, "iou": 1.0, "kept": 0.5}
        assert judge_mask(~truth, sides)["exact"] == 0.0
        whole = judge_mask(torch.ones_like(RED), sides)
        assert whole["exact"] == pytest.approx(0.1) and whole["iou"] == pytest.approx(0.5)


def test_scores_are_cut_halfway():
    assert as_mask(torch.tensor([[0.0, 0.2, 1.0], [5.0, 5.0, 5.0]])).tolist() == [[False, False, True], [False] * 3]


@pytest.mark.parametrize(("baseline", "side"), [(NOT_RED, RED), (IS_RED, ~RED)])
def test_the_smallest_sets_are_the_red_patches_or_the_others_as_the_baseline_counts(baseline, side):
    look_ = seen()
    assert torch.equal(smallest_sets(look_, "cut", baseline, 0.1), side[:20].sum(1).float())
    right = judge_gap(look_, "cut", side[:20], baseline, 0.1)
    assert right == {"gap": 0.0, "gap_feasible": 1.0, "oracle_size": 4.5}
    assert judge_gap(look_, "cut", torch.ones(20, 9, dtype=torch.bool), baseline, 0.1)["gap"] == 4.5
    assert judge_prediction(look_, "cut", side[:20], baseline, 0.1)["feasible"] == 1.0
    wrong = judge_prediction(look_, "cut", ~side[:20], baseline, 0.1)  # right only where nothing had to be kept
    assert wrong["feasible"] == wrong["agreement"] == pytest.approx(0.1)
    assert judge_gap(look_, "cut", ~side[:20], baseline, 0.1)["gap_feasible"] == pytest.approx(0.1)


@pytest.mark.parametrize("truth", [RED, ~RED])
def test_recolouring_what_was_dropped_changes_nothing_and_what_was_kept_the_count(truth):
    sides, _ = judge_ranking(truth.float(), RED)
    found = judge_recoloured(Counter(), TASK, TASK.test, truth, sides, seed=0)
    assert found == {"invariance": 1.0, "sensitivity": 1.0}
    nothing = judge_recoloured(Counter(), TASK, TASK.test, torch.zeros_like(RED), sides, seed=0)
    assert nothing["invariance"] == pytest.approx(0.1) and math.isnan(nothing["sensitivity"])


@torch.no_grad()
def test_recipes_start_where_they_are_told():
    names, widths = list("abcde"), [6] * 5
    for start in (0.95, 0.5):
        probe = make_probe(names, widths, config_of(Job(OURS, start, 0), TINY).probe)
        states = {name: torch.randn(2, 9, 6) for name in names}
        assert float(probe(states, 4).keep_probability().mean()) == pytest.approx(start, abs=1e-5)
        gates = make_probe(names, widths, config_of(Job(RIGHT, start, 0), TINY).probe)
        blank = {name: torch.zeros(2, 9, 6) for name in names}
        for voter in gates.voters:
            nn.init.zeros_(voter.net[0].bias)
            nn.init.zeros_(voter.net[2].bias)
        assert float(gates(blank, 4).keep_probability().mean()) == pytest.approx(start, abs=1e-4)
    signs = [config_of(Job(part, OWN, 3), TINY) for part in (RIGHT, RELEASED)]
    assert [c.objective.published.sign for c in signs] == ["ascent", "descent"]
    assert {(c.probe.offset, c.probe.baseline.learning_rate, c.seed) for c in signs} == {(8.0, 20.0, 3)}


def test_every_seed_is_run_from_every_start_and_ours_come_first():
    jobs = all_jobs(Size(), 10)
    assert len(jobs) == 40 + 10 + 30 and [job.part for job in jobs[:40]] == [OURS] * 40
    assert len(set(jobs)) == len(jobs)


def test_the_summary_counts_what_converged():
    rows = [
        {"method": OURS, "converged": good, "auroc": 0.9 + good / 10, "exact": float(good)} for good in (True, False)
    ]
    rows += [{"method": RIGHT, "converged": True, "auroc": 1.0, "exact": 1.0}]
    rows += [{"method": "rollout", "auroc": a, "auroc_free": 1.0, "exact": 0.5} for a in (0.6, 0.7)]
    summary = summarise(rows)
    assert (summary["starts"], summary["converged"], summary["auroc_min"], summary["exact_min"]) == (2, 1, 0.9, 0.0)
    assert summary["published_converged"] == 1 and summary["released_sign_converged"] is None
    assert summary["rivals"] == {"rollout": {"auroc": pytest.approx(0.65), "auroc_free": 1.0, "exact": 0.5}}


def test_the_masks_that_are_drawn_stand_beside_the_grids_they_are_of():
    shown = shown_grids(TASK, [{"a": as_lines(RED)}, {}, {"b": as_lines(~RED)}])
    assert [grid.count("0") for grid in shown["grids"]] == list(range(1, 9)) and shown["palette"][0] == "#ff0000"
    for name, sign in (("a", "1"), ("b", "0")):
        marked = [[unit for unit, kept in enumerate(line) if kept == sign] for line in shown["keep"][name]]
        assert marked == [[unit for unit, colour in enumerate(grid) if colour == "0"] for grid in shown["grids"]]


def test_each_method_is_drawn_once():
    drawn = [job for job in all_jobs(Size(), 10) if job.drawn]
    assert drawn == [Job(OURS, 0.9, 0), Job(RIVALS, OWN, 0), Job(RIGHT, OWN, 0), Job(RELEASED, OWN, 0)]


def quick_job(jobs, size, number):
    """Find the same in no time, and refuse what was found before."""
    job, found = jobs[number], {"auroc": 1.0, "auroc_free": 1.0, "exact": 1.0}
    name = "rollout" if job.part == RIVALS else job.part
    more = {} if job.part == RIVALS else {"converged": True}
    return {"rows": [{"method": name, **found, **more, "seed": job.seed, "start": job.start or None}], "masks": {}}


def refuse(*given):
    raise AssertionError("this was finished before")


@pytest.fixture
def quick(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(patch_counting, "SMALL", TINY)
    monkeypatch.setattr(patch_counting, "run_job", quick_job)
    return Setup(2, tmp_path / "x.json", small=True, command="x", take_over=True)


def test_a_study_goes_on_from_its_result_file(quick, monkeypatch):
    *_, first = patch_counting.run(quick)
    shutil.rmtree(quick.work("patch-counting"))
    monkeypatch.setattr(patch_counting, "run_job", refuse)
    *_, again = patch_counting.run(quick)
    assert again["rows"] == first["rows"] and again["jobs"] == first["jobs"] and len(again["jobs"]) == 2 + 2 + 8


def test_runs_of_other_seeds_are_not_taken_for_those_that_are_asked_for(quick):
    list(patch_counting.run(quick))
    with pytest.raises(DataError, match=r"run 2 .* is another's \(Job\(part='rivals', start=0.0, seed=0\)\)"):
        list(patch_counting.run(replace(quick, seeds=3)))
    with pytest.raises(DataError, match=r"has 12 finished runs, and 6 would take their place"):
        list(patch_counting.run(replace(quick, seeds=1)))


@pytest.mark.slow
def test_the_study_runs_from_training_to_its_result(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(patch_counting, "SMALL", TINY)
    count, *lines, result = patch_counting.run(Setup(1, tmp_path / "x.json", small=True, command="x"))
    assert count == len(lines) == 1 + 1 + 4
    assert {"starts", "converged", "auroc_min", "exact_min", "rivals"} <= result["summary"].keys()
    assert {"published_converged", "released_sign_converged"} <= result["summary"].keys()
    assert set(result["summary"]["rivals"]) == {*patch_counting.NAMES, "ranking"}
    assert {*patch_counting.NAMES, "ranking"} <= set(result["shown"]["keep"]) and "masks" not in result["rows"][-1]
    ours = next(row for row in result["rows"] if row["method"] == OURS)
    assert {"feasible", "gap", "invariance", "sensitivity", "iou"} <= ours.keys() or "collapsed" in ours
    assert json.loads((tmp_path / "x.json").read_text()) == result
