"""What a method says about a model whose weights are destroyed, part by part."""

from dataclasses import replace

import pytest
import torch

from diffmask.attribution.gradient import GradientNorm
from diffmask.attribution.leave_one_out import LeaveOneOut
from diffmask.evaluation.randomisation import Randomisation, cascade, copied
from diffmask.evaluation.ranking import spearman


@pytest.fixture
def case(toys):
    return toys.judge_text(method=GradientNorm(), depth=1)


def test_the_model_itself_is_never_touched(case):
    before = case.question.model.fingerprint
    Randomisation()(case)
    cascade(case)
    assert case.question.model.fingerprint == before


def test_a_copy_computes_the_same_with_sites_of_its_own(case):
    model = case.question.model
    twin = copied(model)
    theirs = {id(module) for module in model.model.modules()}
    assert twin.sites.names == model.sites.names and twin.fingerprint == model.fingerprint
    assert len(twin.passed) == len(model.passed)
    inside = {id(module) for module in twin.model.modules()}
    assert all(id(s.module) in inside and id(s.module) not in theirs for s in (*twin.sites, *twin.passed))
    assert torch.equal(case.method(replace(case.question, model=twin)), case.scores)


def test_the_cascade_goes_from_the_answer_down_to_the_words_and_ends_where_the_metric_is(case):
    found = cascade(case)
    assert found.stages[0] == "classifier" and "word_embeddings" in found.stages[-1]
    blocks = [name for name in found.stages if "layer." in name]
    assert blocks == sorted(blocks, reverse=True) and len(blocks) == 2
    assert found.similarity.shape == (len(found.stages), 3)
    torch.testing.assert_close(found.similarity[-1], Randomisation()(case), equal_nan=True)


def test_every_weight_changes_and_keeps_its_scale(case):
    twin = {}

    class Spy(GradientNorm):
        def __call__(self, question):
            twin.update(question.model.model.state_dict())
            return super().__call__(question)

    Randomisation()(replace(case, method=Spy()))
    for name, weight in case.question.model.model.state_dict().items():
        if weight.is_floating_point() and float(weight.std()) == 0:
            assert torch.equal(weight, twin[name])  # biases of 0 and the scales of norms, here
        elif weight.is_floating_point():
            assert not torch.equal(weight, twin[name])
            assert float(twin[name].std()) == pytest.approx(float(weight.std()), rel=0.5)


def test_every_stage_and_every_seed_draws_its_own_weights(case):
    drawn = []

    class Spy(GradientNorm):
        def __call__(self, question):
            drawn.append(dict(question.model.model.state_dict()))
            return super().__call__(question)

    for seed in (0, 1):
        Randomisation(seed=seed)(replace(case, method=Spy()))
    name = next(name for name in drawn[0] if "layer.0." in name and name.endswith("query.weight"))
    first, above = (drawn[0][place].flatten() for place in (name, name.replace("layer.0.", "layer.1.")))
    assert abs(float(torch.corrcoef(torch.stack([first, above]))[0, 1])) < 0.5
    assert abs(float(torch.corrcoef(torch.stack([first, drawn[1][name].flatten()]))[0, 1])) < 0.5


def test_the_figure_is_spearman_with_the_scores_for_the_random_model(toys):
    case = toys.judge(LeaveOneOut(), rows=range(12), task=toys.mixed())
    asked = []

    class Spy(LeaveOneOut):
        def __call__(self, question):
            asked.append(super().__call__(question))
            return asked[-1]

    found = Randomisation(seed=1)(replace(case, method=Spy()))
    for row, real in enumerate(case.question.batch.valid):
        expected = float(spearman(case.scores[row][real], asked[0][row][real]))
        assert float(found[row]) == pytest.approx(expected, nan_ok=True)


def test_scores_that_do_not_know_the_model_stay_the_same(toys):
    found = Randomisation()(toys.judge(toys.Noise(), task=toys.mixed()))
    assert torch.allclose(found[~found.isnan()], torch.ones(()).double())


def test_tied_weights_are_drawn_once_for_both(toys):
    case = toys.judge_text(kind="gpt2", method=GradientNorm(), depth=1)
    found = cascade(case)
    assert len(set(found.stages)) == len(found.stages) and not any("lm_head" in name for name in found.stages)
