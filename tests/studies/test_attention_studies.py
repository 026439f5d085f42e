"""Both attention studies from end to end on toy documents."""

import json
import math
import shutil
from dataclasses import dataclass, replace

import pytest
import torch

from attentive_toys import make_corpus, make_model, make_task
from diffmask.attention.classifier import adapt_attentive
from diffmask.attribution.method import Method, Question
from diffmask.report import PICTURES, TABLES
from diffmask.studies import attentive, sparse_attention, staying_true
from diffmask.studies.attentive import AsMany, AttentiveSize, every_nth, faithfulness
from diffmask.studies.setup import Setup
from diffmask.studies.sparse_attention_published import TABLE6, TABLE6_SD


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Run in a directory of its own, on toy documents."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sst").mkdir()
    monkeypatch.setattr(attentive, "read_corpus", lambda name, directory: make_corpus(48))
    table = {method: dict.fromkeys(attentive.METRICS, 0.5) for method in ("diffmask", "attention")}
    judged = {"table": table, "better": dict.fromkeys(attentive.METRICS, "higher"), "kept": 0.5, "failures": 0}
    for study in (sparse_attention, staying_true):  # a test of its own runs it
        monkeypatch.setattr(study, "judge_attention", lambda *given: judged)
    return tmp_path


def fail(*given):
    raise AssertionError("a finished job was run again")


def run(study, directory, **more):
    setup = Setup(1, directory / "result.json", small=True, command="x", data=directory, **more)
    count, *lines, result = study.run(setup)
    assert json.loads((directory / "result.json").read_text()) == result
    assert len(lines) == count
    return result


def check(result, names):
    summary = result["summary"]
    assert set(summary["claims"]) == set(names)
    assert set(summary["claims"].values()) == {"undecided"}  # one seed says nothing
    assert summary["seeds"] == [0] and list(summary["datasets"]) == ["sst"]
    assert summary["datasets"]["sst"]["train"] == 48
    for metric in attentive.METRICS:
        assert {"diffmask", "attention", "diffmask_better"} <= set(summary["faithfulness"][metric])
    assert all({"table", "figure", "dataset", "mean", "spread", "published"} <= set(row) for row in result["rows"])
    text = TABLES.get(result["study"])(result)
    assert all(f"| {name}: " in text for name in names)
    for picture in PICTURES.get(result["study"])(result).values():
        assert picture.axes


def test_sparse_attention_runs_small_and_goes_on_where_it_stopped(here, monkeypatch):
    result = run(sparse_attention, here)
    check(result, ("M1", "M2", "M3", "M4", "M5"))
    assert {row["table"] for row in result["rows"]} == {"1", "2", "3", "5", "6", "attacks", "figure 2", "figure 3"}
    published = [row for row in result["rows"] if row["table"] == "6" and row["published"] is not None]
    assert len(published) == 16  # four kinds, two encoders, two projections, one data set
    assert all(row["published_sd"] == TABLE6_SD[row["figure"].split()[1]][key_of(row)] for row in published)
    agreement = [row for row in result["rows"] if row["table"] == "6" and not row["figure"].endswith(" cut")]
    assert all(0 <= row["undefined"] <= row["documents"] for row in agreement)
    nulls = {row["figure"] for row in result["rows"] if row["figure"].endswith((" null", " cut"))}
    assert nulls == {
        "τ gradient-states null",
        "τ left-out-states null",
        "τ gradient-inputs cut",
        "τ left-out-inputs cut",
    }
    dense = {row["figure"]: row["mean"] for row in result["rows"] if row["projection"] == "softmax"}
    assert dense["τ gradient-inputs cut"] == pytest.approx(dense["τ gradient-inputs every"])  # of all words: not cut
    monkeypatch.setattr(sparse_attention, "run_job", fail)  # what is finished is not run again
    assert run(sparse_attention, here, take_over=True)["rows"] == result["rows"]
    shutil.rmtree(here / "runs")  # the result file alone can be summed up anew
    *_, again = sparse_attention.run(
        Setup(1, here / "result.json", jobs=0, small=True, command="x", data=here, take_over=True)
    )
    assert again["summary"]["claims"] == result["summary"]["claims"] and again["jobs"] == result["jobs"]
    assert [row["mean"] for row in again["rows"]] == [pytest.approx(row["mean"], rel=1e-4) for row in result["rows"]]


def key_of(row):
    return row["dataset"], row["encoder"], row["projection"]


def test_staying_true_runs_small(here):
    result = run(staying_true, here)
    check(result, ("T1", "T2", "T3", "T4", "T5"))
    assert {row["table"] for row in result["rows"]} == {"1", "2", "3", "6", "figure 1"}
    base = [row for row in result["rows"] if row["table"] == "1" and row["figure"] == "F1"]
    assert {(row["variant"], row["alignment"]) for row in base} >= {("tying", "dot"), ("default query", "dot")}
    assert [row["published"] for row in base if (row["variant"], row["alignment"]) == ("mlm", "additive")] == [0.828]


def test_a_study_cut_short_says_what_is_finished_and_goes_on(here, monkeypatch):
    whole = run(staying_true, here)
    for number in (1, 3):
        (here / f"runs/staying-true-small/seed-{number:03d}.json").unlink()
    setup = Setup(1, here / "part.json", jobs=0, small=True, command="x", data=here, take_over=True)
    *_, part = staying_true.run(setup)
    assert len(part["jobs"]) == part["wanted"] - 2 == len(whole["jobs"]) - 2
    assert f"(sst 1; a figure without ± is of one). {len(part['jobs'])} of {part['wanted']}" in TABLES.get(
        "staying-true"
    )(part)
    shutil.rmtree(here / "runs")  # another machine has the result file alone
    done = [job["number"] for job in part["jobs"]]
    real = staying_true.run_job
    monkeypatch.setattr(staying_true, "run_job", lambda *given: fail() if given[-1] in done else real(*given))
    *_, again = staying_true.run(replace(setup, jobs=1))
    assert [job["number"] for job in again["jobs"]] == [job["number"] for job in whole["jobs"]]
    assert "are trained" not in TABLES.get("staying-true")(again)


def test_attention_is_judged_beside_a_probe_that_keeps_as_many_words(here):
    pool = attentive.pool_vectors(here, attentive.SMALL, here / "vectors.safetensors")
    data = attentive.prepare("sst", here, attentive.SMALL, pool)
    model = make_model(data.task)
    found = attentive.judge_attention(model, data, attentive.SMALL, 0)
    assert not found["failures"] and 0 <= found["kept"] <= 1
    judged = ("diffmask", "attention", "random")
    assert all(set(found["table"][method]) == set(attentive.METRICS) for method in judged)


def test_as_many_units_are_kept_as_the_probe_keeps_in_the_order_of_the_method():
    task = attentive_task()
    question = Question(
        adapt_attentive(make_model(task)), task, task.collate(["w1 w2 class0 w3", "w1 class1"]), 0, None
    )
    wanted = Given(torch.tensor([[0.0, 0.9, 0.2, 0.8, 0.1, 0.0], [0.0, 0.6, 0.7, 0.0, 0.0, 0.0]]))
    order = Given(torch.tensor([[0.0, 0.1, 0.0, 0.5, 0.4, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]]))
    found = AsMany(order, wanted)(question)
    assert (found > 0.5).tolist() == [
        [False, False, False, True, True, False],
        [False, True, True, False, False, False],
    ]
    assert found[0, 3] > found[0, 4] > found[0, 1] > found[0, 2]


@dataclass(frozen=True, eq=False)
class Given(Method):
    """Scores that are given."""

    scores: torch.Tensor

    def __call__(self, question):
        return self.scores


def attentive_task():
    return make_task(make_corpus(24))


def test_every_variant_alignment_and_depth_is_a_job_of_its_own():
    jobs = staying_true.jobs_of(AttentiveSize(), 5)
    assert len(set(jobs)) == len(jobs) == 5 * 4 * (2 * 5 + 1 + 2 * 4)


def test_what_no_claim_can_do_without_has_its_turn_first():
    jobs = staying_true.jobs_of(AttentiveSize(), 5)
    stages = {(job.dataset, job.layers > 1, job.variant == "base", job.seed): job.stage for job in jobs}
    first = stages["sst", False, False, 2], stages["ag", True, True, 1], stages["imdb", False, True, 1]
    later = stages["sst", False, True, 4], stages["ag", True, False, 0]
    assert list(first + later) == [0, 1, 2, 3, 4]
    assert stages["sst", True, True, 2] == staying_true.NEVER


def test_documents_are_taken_evenly_from_each_class():
    documents = make_corpus(12).train
    taken = every_nth(documents, 6)
    assert [document.label for document in taken] == [0, 0, 0, 1, 1, 1] and len(set(taken)) == 6
    assert every_nth(documents, None) == documents


def test_faithfulness_counts_the_classifiers_on_which_diffmask_does_better():
    def one(ours, theirs):
        table = {"diffmask": {"sufficiency": ours}, "attention": {"sufficiency": theirs}}
        return {"table": table, "better": {"sufficiency": "lower"}, "kept": 0.5, "failures": 0}

    found = faithfulness([one(0.1, 0.2), one(0.3, 0.2), one(math.nan, 0.1)])
    assert found["sufficiency"]["diffmask_better"] == 1 and found["sufficiency"]["defined"] == 2
    assert found["classifiers"] == 3 and faithfulness([]) == {}
    assert found["sufficiency"]["random"] is None  # as in runs from before chance was judged too
    lucky = [one(0.1, 0.2), one(0.3, 0.2)]
    for judged, chance in zip(lucky, (0.4, math.nan), strict=True):
        judged["table"]["random"] = {"sufficiency": chance}
    assert faithfulness(lucky)["sufficiency"]["random"] == 0.4


def test_the_published_tables_are_complete():
    assert all(len(column) == 12 for table in (TABLE6, TABLE6_SD) for column in table.values())
