"""The exam every metric sits."""

from dataclasses import replace

import pytest
import torch

from diffmask.attribution.gradient import GradientNorm
from diffmask.errors import UnknownNameError
from diffmask.evaluation import METRICS
from diffmask.evaluation.bootstrap import mean_interval
from diffmask.evaluation.swap import SwapTest

WRITTEN = ["a funny movie .", "enjoyable", "a fast enjoyable movie . funny", "a a fast movie"]
SETTINGS = {"hindsight": {"test": SwapTest(examples=3)}, "swap-flips": {"test": SwapTest(examples=3)}}
# These ask the method again, about the model or about itself, or how much is kept: nothing a ranking decides.
ABOUT_THE_METHOD = ["seed-spread", "seed-agreement", "seed-overlap", "randomisation", "kept-fraction", "hindsight"]
RANKING = [name for name in METRICS.names if name not in ABOUT_THE_METHOD]
NEEDS_MARKS = ["truth-kl", "truth-js", "precision", "recall", "f1", "average-precision", "auroc"]
NEEDS_MARKS += ["rationale-f1", "rationale-average-precision", "rationale-iou-f1"]


def make(name, **settings):
    return METRICS.get(name)(**{**SETTINGS.get(name, {}), **settings})


@pytest.mark.parametrize("name", METRICS.names)
def test_a_metric_says_which_marks_it_needs(name, toys):
    case = toys.judge(toys.Noise())
    without = {"truth": replace(case, truth=None), "rationale": replace(case, rationale=None)}
    needed = [what for what, given in without.items() if make(name)(given).isnan().all()]
    assert needed == [make(name).needs] if make(name).needs else not needed


@pytest.mark.parametrize("name", METRICS.names)
def test_a_figure_per_example_and_a_word_on_which_is_better(name, toys):
    metric, case = make(name), toys.judge(toys.Noise())
    figures = metric(case)
    assert figures.shape == (len(case.scores),) and figures.is_floating_point()
    assert metric.better in ("higher", "lower") and isinstance(metric.ranks_only, bool)
    assert not figures.isnan().all()


@pytest.mark.parametrize("name", RANKING)
def test_a_perfect_ranking_beats_random_and_random_beats_the_reverse(name, toys):
    task = toys.mixed() if name == "swap-flips" else None  # whose evidence goes both ways, so that a swap can flip it
    metric = make(name, test=SwapTest(examples=64)) if name == "swap-flips" else make(name)
    methods = (toys.Oracle(), toys.Noise(), toys.Oracle(turned=True))
    perfect, random, reverse = (metric(toys.judge(m, rows=range(50), task=task)) for m in methods)
    sign = 1 if metric.better == "higher" else -1
    middle = mean_interval(sign * random)
    assert float((sign * perfect).nanmean()) > middle.high
    assert float((sign * reverse).nanmean()) < middle.low


@pytest.mark.parametrize("name", [name for name in RANKING if name != "swap-flips"])
def test_scores_spoilt_by_more_noise_fare_worse(name, toys):
    metric, case = make(name), toys.judge(rows=range(50))
    noise, which = toys.Noise(1)(case.question), toys.Noise(2)(case.question)
    spoilt = [torch.where(which < share, noise, case.scores) for share in (0.0, 0.5, 1.0)]
    clean, half, all_of_it = (float(metric(replace(case, scores=scores)).nanmean()) for scores in spoilt)
    assert clean > half > all_of_it if metric.better == "higher" else clean < half < all_of_it


@pytest.mark.parametrize("name", METRICS.names)
def test_where_only_ranks_count_a_rescaling_changes_nothing(name, toys):
    metric, case = make(name), toys.judge(toys.Noise())
    rescaled = replace(case, scores=torch.where(case.question.batch.valid, (3 * case.scores).exp() - 0.5, 0))
    same = torch.equal(metric(case).nan_to_num(), metric(rescaled).nan_to_num())
    assert same or not metric.ranks_only


@pytest.mark.parametrize(("kind", "unit"), [("bert", "word"), ("llama", "token")])
@pytest.mark.parametrize("name", METRICS.names)
def test_figures_do_not_depend_on_batch_mates_nor_on_padding(name, kind, unit, toys):
    # A random model need not be asked by a method with gradients, except where the method is asked again.
    method = GradientNorm() if name == "randomisation" else toys.Noise()
    metric = make(name)
    among = metric(toys.judge_text(WRITTEN, kind, unit=unit, method=method))
    for row in (0, 1):  # the shortest is padded most
        alone = metric(toys.judge_text(WRITTEN[row : row + 1], kind, unit=unit, method=method))
        torch.testing.assert_close(among[row : row + 1], alone, rtol=1e-3, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("name", METRICS.names)
def test_padding_on_the_left_changes_nothing_for_a_decoder(name, toys):
    method = GradientNorm() if name == "randomisation" else toys.Noise()
    right, left = (toys.judge_text(WRITTEN, "llama", side=side, method=method) for side in ("right", "left"))
    torch.testing.assert_close(make(name)(left), make(name)(right), rtol=1e-3, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("name", METRICS.names)
def test_the_same_settings_give_the_same_figures(name, toys):
    first, second = (make(name)(toys.judge(toys.Noise())) for _ in range(2))
    assert torch.equal(first.nan_to_num(), second.nan_to_num())


@pytest.mark.parametrize("name", NEEDS_MARKS)
def test_a_figure_against_marks_is_undefined_where_there_are_none(name, toys):
    case = toys.judge(toys.Noise())
    marked = case.truth.clone()
    marked[:5] = False
    figures = make(name)(replace(case, truth=marked, rationale=marked))
    assert figures[:5].isnan().all() and not figures[5:].isnan().any()
    assert make(name)(replace(case, truth=None, rationale=None)).isnan().all()


@pytest.mark.parametrize("name", METRICS.names)
def test_a_metric_leaves_the_model_and_the_scores_as_they_were(name, toys):
    case = toys.judge(toys.Noise())
    model, scores = case.question.model, case.scores.clone()
    model.model.train()
    before = {key: value.clone() for key, value in model.model.state_dict().items()}
    make(name)(case)
    assert all(torch.equal(value, before[key]) for key, value in model.model.state_dict().items())
    assert all(module.training for module in model.model.modules())
    assert all(p.grad is None and p.requires_grad for p in model.model.parameters())
    assert not any(m._forward_hooks or m._forward_pre_hooks or "forward" in vars(m) for m in model.model.modules())
    assert torch.equal(case.scores, scores)


@pytest.mark.parametrize("name", METRICS.names)
def test_a_metric_works_in_half_precision(name, toys):
    case = toys.judge_text(WRITTEN)
    case.question.model.model.bfloat16()
    figures = make(name)(case)
    assert figures.dtype in (torch.float32, torch.float64) and not figures.requires_grad


@pytest.mark.parametrize("name", ["area-most-first", "area-least-first", "sufficiency", "comprehensiveness"])
def test_scores_that_say_nothing_do_as_well_as_random_ones(name, toys):
    case = toys.judge(rows=range(100))
    same, seeds = case.question.batch.valid.float(), range(1, 5)
    constant = torch.stack([make(name, seed=seed)(replace(case, scores=same)) for seed in seeds])
    random = torch.stack([make(name)(replace(case, scores=toys.Noise(seed + 10)(case.question))) for seed in seeds])
    assert abs(float(constant.mean() - random.mean())) < 0.03
    assert abs(float(constant.std() - random.std())) < 0.03


def test_an_unknown_metric_is_refused_with_the_nearest():
    with pytest.raises(UnknownNameError, match="no metric named 'sufficency'; did you mean 'sufficiency'"):
        METRICS.get("sufficency")
