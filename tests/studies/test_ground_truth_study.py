"""The ground-truth study from end to end at its small size, and the figures it is read by."""

import json
import math

import pytest
import torch

from diffmask.attribution import METHODS
from diffmask.attribution.uniform import Uniform
from diffmask.errors import SettingError
from diffmask.registry import Registry
from diffmask.report.ground_truth import table as report_table
from diffmask.studies import ground_truth
from diffmask.studies.ground_truth import SMALL, explain, make_method, run, run_job
from diffmask.studies.ground_truth_problems import PROBLEMS, closed_form, planted_truth
from diffmask.studies.ground_truth_scores import average_precision, holds, minimal_share, score, top_units
from diffmask.studies.ground_truth_summary import first_of, summarise, table
from diffmask.studies.planted_model import PlantedSize, make_tokenizer
from diffmask.studies.setup import Setup
from diffmask.tasks.planted import draw_shortcut, draw_texts
from diffmask.tasks.text import TextClassification
from diffmask.tasks.truth import Truth
from diffmask.training.fit import fit

FEW = Registry("method", {name: METHODS.table[name] for name in ("probe", "erasure", "attention", "uniform")})
YES = torch.ones(1, 4, dtype=torch.bool)


@pytest.fixture
def few(monkeypatch):
    """Ask few methods: one test asks all of them."""
    monkeypatch.setattr(ground_truth, "METHODS", FEW)


def mask(*units):
    return torch.tensor([[unit in units for unit in range(4)]])


@pytest.mark.parametrize(
    ("scores", "expected"),
    [([4.0, 3.0, 2.0, 1.0], 1.0), ([1.0, 2.0, 3.0, 4.0], (1 / 3 + 2 / 4) / 2), ([1.0, 1.0, 0.0, 0.0], 1.0)],
)
def test_average_precision_counts_down_to_each_relevant_unit(scores, expected):
    assert average_precision(torch.tensor([scores]), mask(0, 1), YES) == pytest.approx(expected)


def test_top_units_are_the_highest_and_chance_decides_between_equals():
    assert torch.equal(top_units(torch.tensor([[1.0, 3.0, 2.0, 0.0]]), YES, torch.tensor([2])), mask(1, 2))
    same = torch.zeros(400, 4)
    picked = top_units(same, YES.expand(400, 4), torch.full((400,), 2)).float()
    assert torch.equal(picked.sum(1), torch.full((400,), 2.0))
    assert torch.allclose(picked.mean(0), torch.full((4,), 0.5), atol=0.1)


def test_any_of_several_minimal_sets_is_right():
    truth = Truth(mask(0, 1), [[frozenset({0}), frozenset({1})]])
    assert minimal_share(torch.tensor([[0.0, 1.0, 0.0, 0.0]]), YES, truth) == 1.0
    assert minimal_share(torch.tensor([[0.0, 0.5, 1.0, 0.0]]), YES, truth) == 0.0
    assert minimal_share(torch.zeros(1, 4), YES, Truth(mask(0), [[frozenset()]])) is None


@pytest.mark.parametrize("name", ["additive", "and", "or", "xor", "majority", "copies", "cancellation"])
def test_the_truth_itself_gets_full_marks_and_its_opposite_none(name):
    problem = closed_form(name, 0, SMALL)
    (asked,) = problem.asked
    right = score(asked.question, asked.truth.relevant.float(), asked.truth, problem.margin)
    assert (right["ap"], right["exact"], right["holds"]) == (1.0, 1.0, 1.0)
    assert right["js"] == pytest.approx(0, abs=1e-6)
    wrong = score(asked.question, (~asked.truth.relevant & asked.question.batch.valid).float(), asked.truth, 0.02)
    assert wrong["ap"] < 0.7 and wrong["exact"] == 0.0


def test_minimal_sets_hold_when_the_model_is_run_on_them():
    for name in ("additive", "or", "copies", "cancellation", "majority"):
        problem = closed_form(name, 1, SMALL)
        (asked,) = problem.asked
        keep = torch.zeros_like(asked.truth.relevant)
        for row, sets in enumerate(asked.truth.sufficient):
            keep[row, list(sets[-1])] = True
        assert bool(holds(asked.question, keep, problem.margin).all())


def test_a_method_the_model_cannot_serve_is_left_out_with_a_reason():
    problem = closed_form("or", 0, SMALL)
    rows, skipped = explain(problem, 0, SMALL)
    assert "attention" in {row["method"] for row in skipped}
    why = {row["method"]: row["why"] for row in skipped}
    assert "gives no attention probabilities" in why["attention"] and "needs a setting" in why["ranking"]
    assert all(why.values())
    assert {row["method"] for row in rows} | {row["method"] for row in skipped} == set(METHODS.names)
    (probe,) = (row for row in rows if row["method"] == "probe")
    assert {"feasible", "kept", "divergence", "fit_seconds"} <= probe.keys()


def test_a_method_with_a_setting_the_study_does_not_have_says_so(monkeypatch):
    problem = closed_form("or", 0, SMALL)
    fitted = fit(problem.model, problem.task, problem.config)
    monkeypatch.setattr(ground_truth, "METHODS", Registry("method", {"x": "diffmask.attribution.method:Question"}))
    with pytest.raises(SettingError, match="method 'x' needs a setting this study does not have"):
        make_method("x", fitted, 0, SMALL)


def test_the_two_hops_are_asked_at_every_depth(few):
    found = run_job([("two-hop", 0)], SMALL, 0)
    tasks = [f"two-hop, {site}" for site in ("input", "layer 1", "layer 2", "layer 3")]
    probes = [row for row in found["rows"] if row["method"] == "probe"]
    assert [row["task"] for row in probes] == tasks
    assert all(0 <= row["knowable_units_right"] <= 1 for row in probes)
    erasure = [row["ap"] for row in found["rows"] if row["method"] == "erasure"]
    assert min(erasure) > 0.99


def test_a_model_that_does_not_use_its_shortcut_is_refused_with_its_figures(monkeypatch):
    size = ground_truth.Size(8, 200, 5, PlantedSize(texts=64, epochs=1, width=16, layers=1), 5, 5, 5)
    found = run_job([("planted, ordered", 3)], size, 0)
    assert found["rows"] == []
    (row,) = found["skipped"]
    assert "does not use its planted shortcut ('ordered')" in row["why"] and "95% are needed" in row["why"]


def test_a_planted_problem_is_checked_and_scored(few):
    found = run_job([("planted, single", 0)], SMALL, 0)
    assert found["checks"]["task"] == "planted, single" and found["checks"]["shortcut inserted"] >= 0.95
    by_method = {row["method"]: row for row in found["rows"]}
    assert by_method["erasure"]["ap"] > 0.95 > by_method["uniform"]["ap"]
    assert "attention" in by_method


def test_the_units_marked_in_a_planted_text_are_the_shortcuts_words():
    tokenizer, shortcut = make_tokenizer(), draw_shortcut("ordered", 0)
    texts = [text for text in draw_texts(shortcut, 20, 0, blanks=False) if text.label]
    task = TextClassification(tokenizer, ["the"], ["the"], gate_special=False)
    batch = task.collate([text.text for text in texts])
    truth = planted_truth(shortcut, texts, batch)
    for ids, marked, sets in zip(batch.inputs["input_ids"], truth.relevant, truth.sufficient, strict=True):
        assert tokenizer.convert_ids_to_tokens(ids[marked].tolist()) == [shortcut.first, shortcut.second]
        assert sets == [frozenset(marked.nonzero().flatten().tolist())]
    assert not bool((truth.relevant & ~batch.valid).any())


def row(method, ap, task="or", minimal=1.0, seed=0, **more):
    return {"task": task, "method": method, "seed": seed, "ap": ap, "minimal": minimal, **more}


ROWS = [
    *(row("probe", ap, seed=seed) for seed, ap in enumerate((0.9, 1.0))),
    *(row("gradient", ap, seed=seed) for seed, ap in enumerate((1.0, 0.98))),
    *(row("uniform", 0.3, seed=seed) for seed in range(2)),
    *(row("probe", 0.5, task="xor", minimal=None, seed=seed) for seed in range(2)),
    *(row("uniform", 0.6, task="xor", minimal=None, seed=seed) for seed in range(2)),
]


def test_ties_within_the_seeds_spread_are_said():
    found = first_of(table(ROWS, "ap")["or"])
    assert (found["first"], found["tied"], found["probe_place"]) == ("gradient", ["probe"], 2)
    assert found["score"] == pytest.approx(0.99)


def test_the_summary_shows_where_the_probe_is_not_first():
    summary = summarise(ROWS, [{"method": "all"}])
    assert summary["probe_first"] == ["or"] and summary["probe_not_first"] == ["xor"]
    assert summary["table"]["or"]["probe"] == {"mean": pytest.approx(0.95), "spread": pytest.approx(0.05), "seeds": 2}
    assert "xor" not in summary["first_by_task_sets"] and summary["refused_models"] == 1


def test_a_small_run_writes_a_result_and_goes_on_where_it_was(tmp_path, monkeypatch, few):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ground_truth, "PROBLEMS", {name: PROBLEMS[name] for name in ("or", "xor")})
    setup = Setup(1, tmp_path / "result.json", small=True, command="diffmask study ground-truth --small")
    *lines, result = run(setup)
    assert lines[0] == 2 and "or, seed 0: probe's average precision" in lines[2]
    written = json.loads((tmp_path / "result.json").read_text())
    assert written == result and set(written["summary"]["first_by_task"]) == {"or", "xor"}
    assert {row["task"] for row in written["rows"]} == {"or", "xor"}
    monkeypatch.setattr(ground_truth, "run_job", lambda *_: pytest.fail("a finished run was run again"))
    assert list(run(setup))[-1]["rows"] == written["rows"]
    assert "| task | first |" in report_table(written)


def test_uniform_scores_are_as_good_as_chance():
    problem = closed_form("majority", 0, SMALL)
    (asked,) = problem.asked
    found = score(asked.question, Uniform()(asked.question), asked.truth, problem.margin)
    share = float((asked.truth.relevant.sum(1) / asked.question.batch.valid.sum(1)).mean())
    assert share < found["ap"] < share + 0.2 and math.isfinite(found["kl"])
