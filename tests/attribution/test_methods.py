"""The exam every attribution method sits."""

import pytest
import torch

from diffmask.attribution import METHODS
from diffmask.attribution.erasure import ExactErasure
from diffmask.attribution.method import Question
from diffmask.attribution.per_example import PerExample
from diffmask.errors import SettingError, UnknownNameError
from diffmask.gates.probe import ProbeConfig, make_probe
from diffmask.objective.objective import ObjectiveConfig
from diffmask.training.free import FreeConfig
from toys import evidence_model, evidence_task

SEARCH = {"search": FreeConfig(steps=20)}
SETTINGS = {"per-example": SEARCH, "reinforce": SEARCH}


def make(name):
    if name == "probe":
        settings = {"probe": make_probe(evidence_model().sites.names, [4, 4, 4], ProbeConfig(kind="hidden"))}
    else:
        settings = SETTINGS.get(name, {})
    torch.manual_seed(0)
    return METHODS.get(name)(**settings)


def ask(depth=2, rows=range(12), model=None):
    model, task = model or evidence_model(), evidence_task()
    return Question(model, task, task.collate(rows), depth, torch.tensor([0.5, 0.5, 0.0, 0.0]))


@pytest.mark.parametrize("depth", [0, 2])
@pytest.mark.parametrize("name", METHODS.names)
def test_scores_have_the_batchs_shape_are_finite_and_zero_on_padding(name, depth):
    question = ask(depth)
    scores = make(name)(question)
    assert scores.shape == question.batch.valid.shape
    assert scores.isfinite().all() and (scores >= 0).all()
    assert (scores[~question.batch.valid] == 0).all()


@pytest.mark.parametrize("name", METHODS.names)
def test_the_same_seed_gives_the_same_scores(name):
    method = make(name)
    assert torch.equal(method(ask()), method(ask()))


@pytest.mark.parametrize("name", METHODS.names)
def test_a_method_leaves_the_model_as_it_was(name):
    model = evidence_model()
    model.model.train()
    before = {key: value.clone() for key, value in model.model.state_dict().items()}
    make(name)(ask(model=model))
    assert all(torch.equal(value, before[key]) for key, value in model.model.state_dict().items())
    assert all(module.training for module in model.model.modules())
    assert all(p.grad is None and p.requires_grad for p in model.model.parameters())
    assert not any(m._forward_hooks or m._forward_pre_hooks or "forward" in vars(m) for m in model.model.modules())


@pytest.mark.parametrize("name", ["probe", "erasure", "uniform"])
def test_scores_do_not_depend_on_batch_mates(name):
    method = make(name)
    torch.testing.assert_close(method(ask(rows=[3])), method(ask(rows=[1, 3, 5]))[1:2])


def test_exact_erasure_agrees_with_trying_every_subset():
    from itertools import product

    question = ask(rows=range(30))
    found = ExactErasure(margin=0.1)(question)
    weights = torch.tensor([0.0, 0.0, 3.0, -3.0])
    for row in range(30):
        valid = question.batch.valid[row]
        evidence = weights[question.batch.inputs["tokens"][row]] * valid
        original = torch.distributions.Bernoulli(logits=evidence.sum())
        sizes = []
        for chosen in product([0, 1], repeat=int(valid.sum())):
            kept = torch.zeros(len(valid))
            kept[: len(chosen)] = torch.tensor(chosen).float()
            masked = torch.distributions.Bernoulli(logits=(evidence * kept).sum())
            close = torch.distributions.kl_divergence(original, masked) <= 0.1
            if close and (masked.logits > 0) == (original.logits > 0) and sum(chosen) >= 1:
                sizes.append(sum(chosen))
        assert int(found[row].sum()) == min(sizes)


def test_exact_erasure_says_when_a_search_would_not_end():
    with pytest.raises(SettingError, match=r"up to 2\^6 sets .* it stops at 3"):
        ExactErasure(most_units=3)(ask())


def test_free_gates_keep_evidence_and_find_masks_within_the_margin():
    question = ask(rows=range(40))
    scores = PerExample(ObjectiveConfig(margin=0.1), FreeConfig(steps=300))(question)
    evidence = question.batch.inputs["tokens"] >= 2
    kept = scores > 0.5
    assert kept[evidence & question.batch.valid].float().mean() > 0.5
    assert kept[~evidence & question.batch.valid].float().mean() < 0.1


def test_an_unknown_method_is_refused_with_the_nearest():
    with pytest.raises(UnknownNameError, match="no attribution method named 'unifrom'; did you mean 'uniform'"):
        METHODS.get("unifrom")
