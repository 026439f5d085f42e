"""A comparison: the same figures as asking method and metric by hand, resumable, and a failure costs one example."""

import json
import math
import time
from dataclasses import dataclass

import pytest
import torch

import diffmask
from diffmask.attribution.leave_one_out import LeaveOneOut
from diffmask.attribution.method import Method
from diffmask.attribution.probe import ProbeScores
from diffmask.attribution.random import Random
from diffmask.errors import DataError, SettingError, StorageError, UnknownNameError
from diffmask.evaluation.compare import compare
from diffmask.evaluation.eraser import Sufficiency
from diffmask.evaluation.metric import Metric
from diffmask.evaluation.subject import about_probe
from diffmask.training.fit import fit
from diffmask.training.step import look
from toys import evidence_model, evidence_task, small_recipe


@pytest.fixture(scope="module")
def fitted():
    return fit(evidence_model(), evidence_task(120), small_recipe(steps=4, kind="hidden"))


class Failing(Method):
    """Scores at random, but not an example that begins with a certain token."""

    def __init__(self, token):
        self.token = token

    def __call__(self, question):
        if bool((question.batch.inputs["tokens"][:, 0] == self.token).any()):
            raise ValueError("I do not like it")
        return Random()(question)


@dataclass(frozen=True)
class Wild(Method):
    """Scores at random, but gives no number for the first unit of an example that begins with a certain token."""

    token: int
    wrong: float

    def __call__(self, question):
        scores, unlucky = Random()(question), question.batch.inputs["tokens"][:, 0] == self.token
        scores[:, 0] = torch.where(unlucky, self.wrong, scores[:, 0])
        return scores


class Slow(Method):
    """Takes its time."""

    def __call__(self, question):
        time.sleep(0.2)
        return Random()(question)


class Broken(Metric):
    better = "higher"

    def __call__(self, case):
        raise RuntimeError("no figure today")


def test_the_figures_are_those_of_method_and_metric_asked_by_hand(fitted):
    found = compare(fitted, range(10), ["probe", "leave-one-out"], ["sufficiency"], batch_size=4, depth=1)
    subject = about_probe(fitted, range(10), 1, None, removal=diffmask.evaluation.REMOVALS.get("baseline")())
    for name, method in {"probe": ProbeScores(fitted.probe, 1), "leave-one-out": LeaveOneOut()}.items():
        question = subject.question(range(10))
        by_hand = Sufficiency()(subject.case(method, question, method(question)))
        assert found.figures[name]["sufficiency"] == pytest.approx(by_hand.double(), abs=1e-6)
    assert found.setting["site"] == fitted.probe.site_names[1]


def test_a_probe_is_ranked_by_what_it_says_of_units_it_would_keep_almost_surely():
    found = fit(evidence_model(), evidence_task(120), small_recipe(steps=4))
    found.probe.shift += 18.0  # as sure as a published recipe may be: in float32 every product is 1
    subject = about_probe(found, range(10), -1, None, removal=diffmask.evaluation.REMOVALS.get("baseline")())
    question = subject.question(range(10))
    scores = ProbeScores(found.probe)(question)
    log_keep = found.probe.log_keep(look(found.model, found.task, question.batch).reading)[-1]
    for row, valid in enumerate(question.batch.valid):
        assert torch.equal(scores[row, valid].argsort(stable=True), log_keep[row, valid].argsort(stable=True))
    assert (scores.float()[question.batch.valid] == 1).all() and (scores[~question.batch.valid] == 0).all()


def test_a_model_without_a_probe_is_compared_at_any_site():
    task, zero = evidence_task(120), torch.zeros(4)
    found = compare(evidence_model(), task, ["gradient", "random"], ["srg"], depth=0, baseline=zero)
    assert found.methods == ["gradient", "random"] and len(found.figures["random"]["srg"]) > 1


def test_metrics_of_truth_are_told_it(fitted):
    def truth(batch, site):
        return batch.valid

    found = compare(fitted, range(6), ["uniform"], ["truth-kl", "recall"], truth=truth)
    assert found.interval("uniform", "truth-kl").mean == pytest.approx(0, abs=1e-6)


def test_one_example_that_fails_costs_that_example_alone(fitted):
    task = fitted.task
    first = task.collate(range(12)).inputs["tokens"][:, 0].tolist()
    found = compare(fitted, range(12), {"failing": Failing(first[0])}, ["sufficiency"], batch_size=5)
    unlucky = [row for row, token in enumerate(first) if token == first[0]]
    assert [failure.example for failure in found.failures] == unlucky
    assert "I do not like it" in found.failures[0].reason and found.failures[0].metric is None
    undefined = found.figures["failing"]["sufficiency"].isnan()
    assert undefined.nonzero().flatten().tolist() == unlucky


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_scores_that_are_no_numbers_cost_their_example_and_are_never_ranked(fitted, wrong):
    first = fitted.task.collate(range(12)).inputs["tokens"][:, 0].tolist()
    unlucky = [row for row, token in enumerate(first) if token == first[0]]
    found = compare(fitted, range(12), {"wild": Wild(first[0], wrong)}, ["srg", "kept-fraction"], batch_size=5)
    assert [failure.example for failure in found.failures] == unlucky
    assert "the scores of method Wild are NaN or infinite for 1 of 1 examples" in found.failures[0].reason
    for figures in found.figures["wild"].values():
        assert figures.isnan().nonzero().flatten().tolist() == unlucky


def test_a_metric_that_fails_leaves_the_others(fitted):
    found = compare(fitted, range(4), ["random"], {"broken": Broken(), "sufficiency": Sufficiency()})
    assert found.figures["random"]["broken"].isnan().all()
    assert not found.figures["random"]["sufficiency"].isnan().any()
    assert {(failure.method, failure.metric) for failure in found.failures} == {("random", "broken")}


def test_a_stopped_comparison_goes_on_and_ends_the_same(fitted, tmp_path):
    whole = compare(fitted, range(9), ["random", "gradient"], ["sufficiency"], batch_size=3)
    kept = compare(fitted, range(9), ["random", "gradient"], ["sufficiency"], batch_size=3, directory=tmp_path)
    (tmp_path / "gradient-00002.json").unlink()  # as if it had been stopped there
    (tmp_path / "random-00001.json").write_text(json.dumps({"figures": {"sufficiency": [7.0, 7.0, 7.0]}}))
    again = compare(fitted, range(9), ["random", "gradient"], ["sufficiency"], batch_size=3, directory=tmp_path)
    assert torch.equal(kept.figures["gradient"]["sufficiency"], again.figures["gradient"]["sufficiency"])
    assert torch.equal(whole.figures["gradient"]["sufficiency"], again.figures["gradient"]["sufficiency"])
    assert again.figures["random"]["sufficiency"][3:6].tolist() == [7, 7, 7]  # what is finished is not made again


def test_two_comparisons_do_not_share_a_directory(fitted, tmp_path):
    compare(fitted, range(3), ["random"], ["sufficiency"], directory=tmp_path)
    with pytest.raises(StorageError, match="holds a comparison with other settings"):
        compare(fitted, range(4), ["random"], ["sufficiency"], directory=tmp_path)


def test_a_directory_is_refused_if_anything_that_makes_a_figure_is_another(fitted, tmp_path):
    usual = {"data": range(3), "methods": {"one": Random()}, "metrics": ["sufficiency"]}
    other = fit(evidence_model(), evidence_task(120), small_recipe(steps=5, kind="hidden"))
    changes = [
        {"data": range(3, 6)},
        {"methods": {"one": Random(seed=1)}},
        {"methods": {"one": LeaveOneOut()}},
        {"metrics": {"sufficiency": Sufficiency(seed=1)}},
        {"baseline": torch.ones(4)},
        {"depth": 0},
        {"methods": {"one": ProbeScores(fitted.probe)}},
        {"methods": {"one": ProbeScores(other.probe)}},
    ]
    asked = [usual, *({**usual, **change} for change in changes)]
    for number, how in enumerate(asked):
        compare(fitted, **how, directory=tmp_path / str(number))
        compare(fitted, **how, directory=tmp_path / str(number))  # the same goes on
        for before in range(number):
            with pytest.raises(StorageError, match="holds a comparison with other settings"):
                compare(fitted, **how, directory=tmp_path / str(before))


def test_costs_are_counted_in_forward_passes(fitted):
    found = compare(fitted, range(4), ["random", "gradient", "leave-one-out"], ["kept-fraction"], depth=0)
    units = fitted.task.collate(range(4)).valid.any(0).sum()
    assert found.costs["random"].forwards == 0
    assert 1 < found.costs["gradient"].forwards <= 3
    assert found.costs["leave-one-out"].forwards == pytest.approx(1 + float(units), rel=0.2)
    assert all(cost.time_ratio > 0 for cost in found.costs.values())


def test_the_time_is_the_methods_own_and_is_known_whichever_batches_follow(fitted):
    found = compare(fitted, range(6), {"slow": Slow()}, ["kept-fraction"], batch_size=2)
    assert found.costs["slow"].seconds >= 0.2 and found.costs["slow"].plain_seconds > 0


def test_who_is_first_is_said_with_those_that_cannot_be_told_from_it(fitted):
    found = compare(fitted, range(30), ["leave-one-out", "random"], ["kept-fraction", "srg"])
    assert found.first("srg")[0] in ("leave-one-out", "random")
    record = found.record()
    assert record["first"]["srg"] == found.first("srg")
    assert {row["method"] for row in record["rows"]} == {"leave-one-out", "random"}


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"methods": ["gradiant"]}, UnknownNameError, "did you mean 'gradient'"),
        ({"metrics": ["sufficency"]}, UnknownNameError, "did you mean 'sufficiency'"),
        ({"removal": "deletoin"}, UnknownNameError, "did you mean 'deletion'"),
        ({"methods": []}, SettingError, "at least one method"),
        ({"metrics": {}}, SettingError, "at least one metric"),
        ({"data": []}, DataError, "at least one example"),
        ({"batch_size": 0}, SettingError, "batch_size of a comparison must be at least 1, got 0"),
        ({"depth": 9}, SettingError, "depth 9 does not exist"),
    ],
)
def test_what_cannot_be_compared_is_refused(fitted, given, error, said):
    usual = {"data": range(2), "methods": ["random"], "metrics": ["srg"]}
    with pytest.raises(error, match=said):
        compare(fitted, **{**usual, **given})


def test_the_probe_needs_a_fit_and_a_model_needs_a_task():
    with pytest.raises(SettingError, match="method 'probe' needs a fitted probe"):
        compare(evidence_model(), evidence_task(120), ["probe"], ["srg"])
    with pytest.raises(SettingError, match="pass a task as data"):
        compare(evidence_model(), [1, 2], ["random"], ["srg"])


@pytest.mark.parametrize(
    ("metric", "wanted"),
    [
        ("auroc", r"metric 'auroc' needs to know which units matter.*truth=.*diffmask\.compare.*leave the metric out"),
        ("rationale-f1", r"metric 'rationale-f1' needs to know which units a person marked.*rationale="),
    ],
)
def test_a_metric_that_needs_marks_nobody_gave_is_refused_before_anything_runs(fitted, metric, wanted):
    with pytest.raises(SettingError, match=wanted):
        compare(fitted, range(6), ["uniform"], ["srg", metric])
