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
SETTINGS = {"per-example": SEARCH, "reinforce": SEARCH, "integrated-gradients": {"steps": 8}}
POINTWISE = ["gradient", "gradient-input", "integrated-gradients", "leave-one-out"]  # no search, and no probe to fit
WRITTEN = ["a funny movie .", "enjoyable", "a fast enjoyable movie . funny", "a a fast movie"]


def make(name):
    if name == "probe":
        settings = {"probe": make_probe(evidence_model().sites.names, [4, 4, 4], ProbeConfig(kind="hidden"))}
    else:
        settings = SETTINGS.get(name, {})
    torch.manual_seed(0)
    return METHODS.get(name)(**settings)


def ask(depth=2, rows=range(12)):
    task = evidence_task()
    return Question(evidence_model(), task, task.collate(rows), depth, torch.tensor([0.5, 0.5, 0.0, 0.0]))


@pytest.fixture
def question_for(ask_text):
    """Ask a method about the toy; about a text if it needs a model with attention."""

    def question_for(name, depth=2):
        return ask_text(WRITTEN, depth) if name == "attention" else ask(depth)

    return question_for


@pytest.mark.parametrize("depth", [0, 2])
@pytest.mark.parametrize("name", METHODS.names)
def test_scores_have_the_batchs_shape_are_finite_and_zero_on_padding(name, depth, question_for):
    question = question_for(name, depth)
    scores = make(name)(question)
    assert scores.shape == question.batch.valid.shape
    assert scores.isfinite().all() and (scores >= 0).all()
    assert (scores[~question.batch.valid] == 0).all()


@pytest.mark.parametrize("name", METHODS.names)
def test_the_same_seed_gives_the_same_scores(name, question_for):
    method = make(name)
    assert torch.equal(method(question_for(name)), method(question_for(name)))


@pytest.mark.parametrize("name", METHODS.names)
def test_a_method_leaves_the_model_as_it_was(name, question_for):
    question = question_for(name)
    model = question.model
    model.model.train()
    before = {key: value.clone() for key, value in model.model.state_dict().items()}
    make(name)(question)
    assert all(torch.equal(value, before[key]) for key, value in model.model.state_dict().items())
    assert all(module.training for module in model.model.modules())
    assert all(p.grad is None and p.requires_grad for p in model.model.parameters())
    assert not any(m._forward_hooks or m._forward_pre_hooks or "forward" in vars(m) for m in model.model.modules())


@pytest.mark.parametrize("name", [*POINTWISE, "probe", "erasure", "uniform"])
def test_scores_do_not_depend_on_batch_mates(name):
    method = make(name)
    torch.testing.assert_close(method(ask(rows=[3])), method(ask(rows=[1, 3, 5]))[1:2])


TEXT_CASES = [(name, kind) for name in (*POINTWISE, "attention") for kind in ("bert", "llama", "lstm")]
TEXT_CASES.remove(("attention", "lstm"))


@pytest.mark.parametrize("unit", ["token", "word"])
@pytest.mark.parametrize(("name", "kind"), TEXT_CASES)
def test_of_a_text_model_scores_do_not_depend_on_batch_mates_nor_on_padding(name, kind, unit, ask_text):
    method = make(name)
    for depth in range(2 if kind == "lstm" else 4):
        alone = method(ask_text(WRITTEN[:1], depth, kind, unit=unit))
        among = ask_text(WRITTEN, depth, kind, unit=unit)
        scores = method(among)
        assert scores.shape == among.batch.valid.shape
        assert scores.isfinite().all() and (scores >= 0).all() and (scores[~among.batch.valid] == 0).all()
        width = alone.shape[1]
        assert among.batch.shape[1] > width and (scores[0, width:] == 0).all()
        torch.testing.assert_close(scores[:1, :width], alone, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", [*POINTWISE, "attention"])
def test_padding_on_the_left_moves_the_scores_of_a_decoder_and_leaves_them_the_same(name, ask_text):
    method = make(name)
    right = ask_text(WRITTEN, 2, "llama")
    left = ask_text(WRITTEN, 2, "llama", padding_side="left")
    found, expected = method(left)[left.batch.valid], method(right)[right.batch.valid]
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", [*POINTWISE, "attention"])
def test_a_method_works_where_gradients_are_off_and_in_half_precision(name, ask_text):
    method, question = make(name), ask_text(WRITTEN, 2)
    expected = method(question)
    with torch.no_grad():
        assert torch.equal(method(question), expected)
    question.model.model.bfloat16()
    half = method(question)
    assert half.dtype == torch.float32 and not half.requires_grad and half.isfinite().all()


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
