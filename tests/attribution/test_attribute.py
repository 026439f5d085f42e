"""Any method, asked about any examples in one call: the scores it gives when it is asked by hand."""

from functools import partial

import pytest
import torch

from diffmask import certify
from diffmask.attribution import METHODS
from diffmask.attribution.attribute import as_method, attribute, make_method
from diffmask.attribution.comparisons import Comparisons
from diffmask.attribution.gradient_input import GradientInput
from diffmask.attribution.integrated_gradients import IntegratedGradients
from diffmask.attribution.leave_one_out import LeaveOneOut
from diffmask.attribution.method import Method, Question
from diffmask.attribution.probe import ProbeScores
from diffmask.attribution.ranking import RankScores
from diffmask.errors import ExampleError, SettingError, UnknownNameError
from diffmask.evaluation.compare import compare
from diffmask.explaining.embedded import load_embedded
from diffmask.models.adapting import adapt
from diffmask.tasks.text import NextToken
from diffmask.training.config import recipe
from diffmask.training.fit import fit
from tiny_text import make_model, make_tokenizer
from toys import evidence_model, evidence_task, small_recipe

ROWS = [5, 0, 33, 12, 7]
TEXTS = [
    "A fast, funny, highly enjoyable movie that I would see again.",
    "Dull.",
    "It drags on and on.",
    "Not bad at all",
]


@pytest.fixture(scope="module")
def fitted():
    return fit(evidence_model(), evidence_task(), small_recipe(kind="input", steps=60))


@pytest.fixture(scope="module")
def ranked():
    config = recipe(
        "ranking", steps=5, batch_size=16, pairs=2, ablation_steps=2, validate_every=5, most=4.0, sizes="half"
    )
    return fit(evidence_model(), evidence_task(), config)


def by_hand(fitted, method, row, depth=-1):
    probe, batch = fitted.probe, fitted.task.collate([row])
    chosen = range(probe.depth_count)[depth]
    baseline = probe.baseline(chosen)
    baseline = None if baseline is None else baseline.detach()
    question = Question(fitted.model, fitted.task, batch, probe.site_index(chosen), baseline, chosen)
    return method(question)[0][batch.valid[0]]


@pytest.mark.parametrize("name", ["integrated-gradients", "leave-one-out", "gradient-input", "rise"])
def test_scores_are_those_of_the_method_asked_by_hand_whatever_the_batches(fitted, name):
    for size in (2, 16):
        found = attribute(fitted, ROWS, name, batch_size=size)
        for row, scores in zip(ROWS, found, strict=True):
            assert torch.allclose(scores, by_hand(fitted, METHODS.get(name)(), row), atol=1e-5)


def test_scores_are_given_to_their_examples_though_those_of_like_length_go_together():
    fitted = load_embedded()
    together = attribute(fitted, TEXTS, "gradient-input", batch_size=2)
    for text, scores in zip(TEXTS, together, strict=True):
        torch.testing.assert_close(scores, by_hand(fitted, GradientInput(), text), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", ["input", "hidden"])
def test_a_method_is_asked_where_the_probe_masks_and_with_its_baseline_there(kind):
    fitted = load_embedded(kind)
    for depth in (0, 3):
        (found,) = attribute(fitted, TEXTS[:1], LeaveOneOut(), depth=depth)
        torch.testing.assert_close(found, by_hand(fitted, LeaveOneOut(), TEXTS[0], depth), rtol=1e-3, atol=1e-5)
    other = Question(*asked_of(fitted, TEXTS[0], site=0 if kind == "hidden" else 3, depth=3))
    assert not torch.allclose(LeaveOneOut()(other)[0], found, atol=1e-3)


def asked_of(fitted, text, site, depth):
    return fitted.model, fitted.task, fitted.task.collate([text]), site, fitted.probe.baseline(depth).detach(), depth


def test_where_units_are_knocked_out_nothing_stands_in_for_them():
    tokenizer = make_tokenizer("left", causal=True)
    task = NextToken(tokenizer, ["a funny movie .", "a fast enjoyable movie"] * 4, ["fast . funny movie"])
    settings = {"margin": 1.0, "steps": 2, "batch_size": 4, "guard": False, "depths_per_step": 2}
    knocked = fit(adapt(make_model("llama"), tokenizer), task, recipe(removal="knockout", **settings))
    (found,) = attribute(knocked, ["a fast movie"], "leave-one-out")
    assert torch.allclose(found, by_hand(knocked, LeaveOneOut(), "a fast movie"), atol=1e-6)


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
    by_name = [make_method(name, ranked) for name in ("ranking", "comparisons")]
    assert by_name == [RankScores(ranked.probe), Comparisons(ranked.probe, measure="kl", most=4.0, sizes="half")]
    assert make_method("comparisons", fitted) == make_method("comparisons", None) == Comparisons(None)
    assert Comparisons.after(ranked, pairs=3) == Comparisons(ranked.probe, 3, "kl", 4.0, "half")


@pytest.mark.parametrize("depth", [0, 1, -1])
def test_a_probe_of_ones_own_reads_as_far_up_as_is_asked_about(ranked, depth):
    probe, chosen = ranked.probe, range(ranked.probe.depth_count)[depth]
    for make in (RankScores, partial(Comparisons, pairs=3), ProbeScores):
        (found,) = attribute(ranked, [5], make(probe), depth=depth)
        assert torch.equal(found, by_hand(ranked, make(probe, depth=chosen), 5))
        compared = compare(ranked, [5], {"it": make(probe)}, ["srg"], depth=depth)
        assert compared.figures == compare(ranked, [5], {"it": make(probe, depth=chosen)}, ["srg"], depth=depth).figures


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
        make_method("probe", None)
    for wrong in (IntegratedGradients, None):
        with pytest.raises(SettingError, match=r"a method is a name or one made with settings, Integrated.*, got "):
            as_method(wrong, fitted)
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
