"""The swap test: masks found in hindsight fail it, the truth passes it."""

from dataclasses import replace

import pytest
import torch

from diffmask.attribution.erasure import ExactErasure
from diffmask.errors import DataError, SettingError
from diffmask.evaluation.swap import Hindsight, SwapFlips, SwapTest
from diffmask.evaluation.swap_pool import collect
from diffmask.objective.divergence import divergence
from diffmask.training.draws import content_seeds
from diffmask.types import Bernoulli

WEIGHTS = torch.tensor([0.0, 0.0, 3.0, -3.0])


@pytest.fixture
def judged(toys):
    """Judge a method on evidence that goes both ways, and so may cancel out."""
    return lambda method, **settings: toys.judge(method, task=toys.mixed(), **settings)


def test_what_the_truth_drops_is_interchangeable(judged, toys):
    found = SwapTest()(judged(toys.Oracle()))
    assert found.swapped.abs().max() < 1e-5 and found.flips.max() == 0 and found.hindsight.abs().max() < 1e-5


def test_erasure_looks_perfect_until_it_is_swapped(judged):
    case, test = judged(ExactErasure(margin=0.05), rows=range(24)), SwapTest(examples=24)
    found = test(case)
    assert float(found.removed.mean()) < 0.05
    assert float(found.swapped.nanmean()) > 0.3 and float(found.flips.nanmean()) > 0.05
    assert float(found.kept_fraction.mean()) < 0.6
    torch.testing.assert_close(Hindsight(test)(case), found.hindsight, equal_nan=True)
    torch.testing.assert_close(SwapFlips(test)(case), found.flips, equal_nan=True)


def test_keeping_everything_scores_nothing(judged, toys):
    case = judged(toys.Oracle())
    case = replace(case, scores=case.question.batch.valid.float())
    found = SwapTest()(case)
    assert found.hindsight.abs().max() < 1e-6 and (found.kept_fraction == 1).all() and (found.flips == 0).all()


def test_where_nothing_is_ever_dropped_there_is_nothing_to_swap_and_nothing_undefined(judged, toys):
    class All(toys.Oracle):
        def __call__(self, question):
            return question.batch.valid.float()

    found = SwapTest(examples=8)(judged(All(), rows=range(5)))
    assert found.hindsight.abs().max() < 1e-6 and (found.flips == 0).all()


def test_the_mean_over_draws_nears_the_mean_over_the_pool(judged, toys):
    """With one dropped unit, every unit of the pool can be tried."""
    case = judged(toys.Noise(), rows=range(12))
    valid, tokens = case.question.batch.valid, case.question.batch.inputs["tokens"]
    scores = valid.float()
    scores[:, 0] = 0  # the first unit is dropped
    case = replace(case, scores=scores)
    found = SwapTest(draws=1500, examples=48)(case)
    pool = collect(case.question, case.method, 0.5, 48, lambda batch: [None] * len(batch))
    contents = content_seeds(case.question.batch)
    for row in range(12):
        evidence = (WEIGHTS[tokens[row]] * valid[row]).sum()
        allowed = pool.entries(None, contents[row])
        tried = evidence - WEIGHTS[tokens[row, 0]] + pool.states[allowed] @ WEIGHTS
        original, swapped = ({"": Bernoulli(logit)} for logit in (evidence.expand_as(tried), tried))
        expected = divergence(original, swapped)
        error = 4 * float(expected.std()) / 1500**0.5 + 1e-4
        assert float(found.swapped[row]) == pytest.approx(float(expected.mean()), abs=error)


def test_the_pool_holds_what_the_method_drops_on_other_training_examples(judged, toys):
    case = judged(toys.Oracle())
    task, states = case.question.task, []
    batch = task.collate([task.train[number * len(task.train) // 20] for number in range(20)])
    for tokens, real in zip(batch.inputs["tokens"], batch.valid, strict=True):
        states += [torch.eye(4)[token] for token in tokens[real] if token < 2]
    pool = collect(case.question, case.method, 0.5, 20, lambda batch: [None] * len(batch))
    assert torch.equal(pool.states, torch.stack(states)) and len(pool.conditions) == len(pool.contents) == len(states)
    own = pool.contents[0]
    assert len(pool.entries(None, own)) == len(states) - pool.contents.count(own)


def test_units_come_only_from_examples_of_the_same_condition(judged, toys):
    """Where the condition is what the first token is, a drop of that very token meets only its like."""
    case = judged(toys.Oracle(), rows=range(30))

    class First(toys.Oracle):
        def __call__(self, question):
            scores = question.batch.valid.float()
            scores[:, 0] = 0
            return scores

    by_token = SwapTest(condition=lambda batch: batch.inputs["tokens"][:, 0].tolist())
    case = replace(case, method=First(), scores=First()(case.question))
    assert by_token(case).swapped.nan_to_num().abs().max() < 1e-5
    assert SwapTest()(case).swapped.max() > 0.1
    never = SwapTest(condition=lambda batch: [object() for _ in range(len(batch))])(case)
    assert never.swapped.isnan().all() and never.flips.isnan().all() and never.removed.isfinite().all()


def test_the_method_is_asked_about_the_pool_once(judged, toys):
    asked = []

    class Spy(toys.Oracle):
        def __call__(self, question):
            asked.append(len(question.batch))
            return super().__call__(question)

    case = judged(Spy())
    test = SwapTest(examples=10)
    asked.clear()
    first, second = test(case), test(case)
    assert asked == [10] and torch.equal(first.swapped, second.swapped)


def test_draws_do_not_depend_on_how_many_rows_a_pass_takes(judged, toys):
    case = judged(toys.Noise(), rows=range(6))
    wide, narrow = (SwapTest(rows=rows)(case) for rows in (256, 1))
    torch.testing.assert_close(wide.swapped, narrow.swapped)
    assert not torch.equal(wide.swapped, SwapTest(seed=1)(case).swapped)


def test_settings_and_data_that_cannot_work_are_refused(judged, toys):
    with pytest.raises(SettingError, match="draws of the swap test must be at least 1, got 0"):
        SwapTest(draws=0)
    case = judged(toys.Oracle())
    case.question.task.train = range(0)
    with pytest.raises(DataError, match="training examples, and it has none"):
        SwapTest()(case)
