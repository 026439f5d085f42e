"""Any method, asked about any examples in one call: the scores it gives when it is asked by hand."""

import pytest
import torch

from diffmask import certify
from diffmask.attribution import METHODS
from diffmask.attribution.attribute import attribute, make_method
from diffmask.attribution.comparisons import Comparisons
from diffmask.attribution.integrated_gradients import IntegratedGradients
from diffmask.attribution.method import Method, Question
from diffmask.attribution.ranking import RankScores
from diffmask.errors import ExampleError, SettingError, UnknownNameError
from diffmask.training.config import recipe
from diffmask.training.fit import fit
from toys import evidence_model, evidence_task, small_recipe

ROWS = [5, 0, 33, 12, 7]


@pytest.fixture(scope="module")
def fitted():
    return fit(evidence_model(), evidence_task(), small_recipe(kind="input", steps=60))


@pytest.fixture(scope="module")
def ranked():
    config = recipe("ranking", steps=5, batch_size=16, pairs=2, ablation_steps=2, validate_every=5)
    return fit(evidence_model(), evidence_task(), config)


def by_hand(fitted, method, row, depth=-1):
    probe, batch = fitted.probe, fitted.task.collate([row])
    chosen = range(probe.depth_count)[depth]
    question = Question(fitted.model, fitted.task, batch, probe.site_index(chosen), probe.baseline(chosen).detach())
    return method(question)[0][batch.valid[0]]


@pytest.mark.parametrize("name", ["integrated-gradients", "leave-one-out", "gradient-input", "rise"])
def test_scores_are_those_of_the_method_asked_by_hand_whatever_the_batches(fitted, name):
    for size in (2, 16):
        found = attribute(fitted, ROWS, name, batch_size=size)
        for row, scores in zip(ROWS, found, strict=True):
            assert torch.allclose(scores, by_hand(fitted, METHODS.get(name)(), row), atol=1e-5)


def test_scores_belong_to_the_units_of_the_task(fitted):
    found = attribute(fitted, ROWS, "random")
    assert [len(scores) for scores in found] == [len(units) for units in fitted.task.units(ROWS)]


def test_a_method_with_settings_of_ones_own_is_asked_as_it_is(fitted):
    method = IntegratedGradients(steps=3)
    (found,) = attribute(fitted, [5], method)
    assert torch.allclose(found, by_hand(fitted, method, 5))


@pytest.mark.parametrize("depth", [0, 1, -1])
def test_the_probe_itself_is_asked_at_the_depth(fitted, depth):
    (found,) = attribute(fitted, [5], "probe", depth=depth)
    (explained,) = certify(fitted, [5], margin=1.0, depth=depth)
    assert torch.allclose(found.float(), explained.scores[explained.depth].exp(), atol=1e-6)


def test_a_fit_that_ranks_is_what_ranking_and_comparisons_start_from(ranked, fitted):
    last = ranked.probe.depth_count - 1
    by_name = [make_method(name, ranked.probe, last) for name in ("ranking", "comparisons")]
    assert by_name == [RankScores(ranked.probe, last), Comparisons(ranked.probe, depth=last)]
    assert make_method("comparisons", fitted.probe, 1) == Comparisons(None, depth=1)
    (found,) = attribute(ranked, [5], "ranking")
    assert torch.allclose(found, by_hand(ranked, RankScores(ranked.probe, last), 5))


def test_what_a_method_says_is_cut_where_the_margin_holds(fitted):
    order = attribute(fitted, ROWS, "leave-one-out")
    found = certify(fitted, ROWS, order=order, margin=0.05, decision=True)
    assert all(each.verified and each.verification.same_prediction for each in found)


def test_what_cannot_be_asked_is_refused_in_a_sentence(fitted):
    with pytest.raises(UnknownNameError, match="no attribution method named 'integrated-gradient'; did you mean"):
        attribute(fitted, ROWS, "integrated-gradient")
    with pytest.raises(SettingError, match="method 'ranking' needs a fitted one: ask about a fit by the recipe"):
        attribute(fitted, ROWS, "ranking")
    with pytest.raises(SettingError, match="method 'probe' needs a fitted probe"):
        make_method("probe", None, 0)
    with pytest.raises(SettingError, match="batch_size must be at least 1, got 0"):
        attribute(fitted, ROWS, "random", batch_size=0)


def test_scores_that_order_nothing_are_refused_by_their_example(fitted):
    class Broken(Method):
        def __call__(self, question):
            scores = question.batch.valid.float()
            scores[1, 0] = torch.nan
            return scores

    with pytest.raises(ExampleError, match="example 1: the method's scores are NaN or infinite there"):
        attribute(fitted, ROWS, Broken())
