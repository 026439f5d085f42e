"""Both attention studies from end to end on toy documents, and their claims on figures made up to hold or not."""

import json
import math
import shutil
from dataclasses import dataclass, replace

import pytest
import torch

from attentive_toys import make_corpus, make_model, make_task
from diffmask.attention.classifier import adapt_attentive
from diffmask.attention.importance import CUTS
from diffmask.attribution.method import Method, Question
from diffmask.report import PICTURES, TABLES
from diffmask.studies import attentive, sparse_attention, staying_true
from diffmask.studies.attentive import AsMany, AttentiveSize, every_nth, faithfulness
from diffmask.studies.claims import judge, vote
from diffmask.studies.setup import Setup
from diffmask.studies.sparse_attention_published import KINDS, TABLE6
from diffmask.studies.sparse_attention_summary import above_ties, claims, tie_null
from diffmask.studies.staying_true_summary import claims as staying_claims


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
    assert {row["table"] for row in result["rows"]} == {"1", "2", "3", "5", "6", "figure 2", "figure 3"}
    published = [row for row in result["rows"] if row["table"] == "6" and row["published"] is not None]
    assert len(published) == 16  # four kinds, two encoders, two projections, one data set
    assert all(row["undefined"] >= 0 for row in result["rows"] if row["table"] == "6")
    monkeypatch.setattr(sparse_attention, "run_job", fail)  # what is finished is not run again
    assert run(sparse_attention, here, take_over=True)["rows"] == result["rows"]


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
    assert all(set(found["table"][method]) == set(attentive.METRICS) for method in ("diffmask", "attention"))


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


@pytest.mark.parametrize(
    ("differences", "expected"),
    [([0.1, 0.12, 0.11], 1), ([-0.1, -0.12], -1), ([0.1, -0.1, 0.05], 0), ([0.4], 0), ([0.2, math.nan], 0)],
)
def test_a_cell_votes_by_two_standard_errors(differences, expected):
    assert vote(differences) == expected


def test_a_claim_holds_fails_or_is_undecided():
    up, down, level = [0.1, 0.1], [-0.1, -0.1], [0.1, -0.1]
    assert judge({"a": up, "b": up, "c": up, "d": level})["verdict"] == "holds"
    assert judge({"a": down, "b": level})["verdict"] == "fails"
    assert judge({"a": up, "b": level, "c": down})["verdict"] == "undecided"
    assert judge({})["verdict"] == "undecided"
    assert judge({"a": up, "b": []})["verdict"] == "holds" and judge({"a": up, "b": []})["cells"] == 1


def made_up(seed, sparsity, tau=0.3, entropy=0.5, share=1.0, states=0.9):
    """Make the figures of a job; importance of inputs agrees by `tau`, of hidden states by `states`."""
    agreement = {
        kind: {name: {"mean": (states if "states" in kind else tau) + seed / 1000} for name in ("every", "support")}
        for kind in KINDS
    }
    projection = {None: "softmax", 0.0: "sparsemax"}.get(sparsity, "sparsegen")
    return {
        **{"dataset": "imdb", "encoder": "bilstm", "projection": projection, "sparsity": sparsity, "seed": seed},
        **{"agreement": agreement, "entropy": {KINDS[0]: {"mean": entropy}}, "support_share": share},
        "state_entropy": {"mean": 0.8 + seed / 1000},
        "truncated": {KINDS[0]: [{"mean": 0.4 * cut} for cut in CUTS]},
        "adversaries": {
            "frozen": {"change": -0.1 - seed / 1000, "divergence": 0.6},
            "unfrozen": {"change": 0.0, "divergence": 0.65},
        },
    }


def test_the_claims_about_sparse_attention_hold_where_the_figures_say_so():
    jobs = [made_up(seed, None) for seed in range(3)]
    for seed in range(3):
        jobs += [made_up(seed, x, 0.3 - x / 10, 0.5 - x / 10, 0.5) for x in (-1.0, 0.0, 0.5, 0.9)]
    found = claims(jobs)
    assert {name: one["verdict"] for name, one in found.items()} == dict.fromkeys(
        ("M1", "M2", "M3", "M4", "M5"), "holds"
    )
    assert found["M5"]["divergence_gap"] == {
        "imdb bilstm softmax": pytest.approx(0.05),
        "imdb bilstm sparsemax": pytest.approx(0.05),
    }
    assert found["M4"]["above_ties"]["imdb bilstm"]["0"] == pytest.approx(0.3 + 0.001 - 0.2)


def test_the_claims_about_sparse_attention_fail_where_the_figures_say_so():
    jobs = [made_up(seed, None, states=0.1) for seed in range(3)]
    for seed in range(3):
        jobs += [made_up(seed, x, 0.3 + x / 10, 0.5 + x / 10, 0.5, 0.1) for x in (-1.0, 0.0, 0.5, 0.9)]
    found = claims(jobs)
    assert all(found[name]["verdict"] == "fails" for name in ("M1", "M3", "M4"))


def test_what_ties_alone_give_is_read_off_between_the_measured_shares():
    dense = made_up(0, None)
    for share in (1.0, 0.6, 0.15, 0.02):
        assert tie_null(dense, share) == pytest.approx(0.4 * share)
    assert tie_null(dense, 0.001) == pytest.approx(0.4 * min(CUTS))
    assert above_ties([dense]) == {}


def job_of(variant, seed, drop, chance, kept, alignment="additive", layers=1, entropy=0.5):
    return {
        **{"dataset": "sst", "variant": variant, "alignment": alignment, "layers": layers, "seed": seed, "f1": 0.8},
        **{kind: {"f1": drop + seed / 1000} for kind in ("uniform", "permuted")},
        "word_probability": {"macro": chance},
        "attention_entropy": {"mean": entropy},
        "information": {
            words: {"plain": kept + seed / 1000, "corrected": kept + seed / 1000} for words in ("frequent", "sampled")
        },
    }


def test_the_claims_about_staying_true_compare_classifiers_of_the_same_seed():
    jobs = []
    for seed in range(3):
        for alignment in ("additive", "dot"):
            jobs += [
                job_of("base", seed, 0.05, 0.7, 1.0, alignment),
                job_of("mlm", seed, 0.2, 0.6, 2.0, alignment),
                job_of("tying", seed, 0.3, 0.5, 3.0, alignment),
                job_of("residual", seed, 0.1, 0.6, 4.0, alignment),
            ]
        jobs += [
            job_of("base", seed, 0.01, 0.7, 1.0, layers=3),
            job_of("default query", seed, 0, 0, 0, "dot", 1, 0.999),
        ]
    found = staying_claims(jobs, ["sst"])
    assert {name: one["verdict"] for name, one in found.items()} == dict.fromkeys(
        ("T1", "T2", "T3", "T4", "T5"), "holds"
    )
    assert found["T1"]["f1_change"]["sst dot mlm"] == 0


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


def test_the_published_tables_are_complete():
    assert all(len(column) == 12 for column in TABLE6.values())
