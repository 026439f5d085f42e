"""The exam every attribution method sits: a line in the table is all it takes to be asked."""

from dataclasses import fields, is_dataclass

import pytest
import torch

from diffmask.attribution import METHODS
from diffmask.attribution.erasure import ExactErasure
from diffmask.attribution.method import Question
from diffmask.attribution.per_example import PerExample
from diffmask.errors import ModelError, SettingError, UnknownNameError
from diffmask.gates.probe import ProbeConfig, make_probe
from diffmask.objective.objective import ObjectiveConfig
from diffmask.settings import change
from diffmask.training.free import FreeConfig
from diffmask.training.step import look
from toys import evidence_model, evidence_task

# What a method is given to be quick, and to be moved by its noise at once; all others sit the exam as they come.
SEARCH = FreeConfig(steps=8, start_open=0.5, learning_rate=0.3)
SETTINGS = {
    "per-example": {"search": SEARCH},
    "reinforce": {"search": SEARCH},
    "integrated-gradients": {"steps": 8},
    "erasure": {"margin": 0.5},
    "greedy": {"margin": 0.5},
    "bottleneck": {"steps": 6, "examples": 8, "beta": 0.01, "learning_rate": 1.0},
    "guan": {"steps": 6, "weight": 1e-6, "learning_rate": 1.0},
    "lime": {"samples": 16},
    "kernel-shap": {"samples": 16},
    "rise": {"samples": 16},
}
NEED_ATTENTION = ["attention", "rollout", "chefer"]  # asked about text models, they refuse one that only reads on
HIDDEN = {"bert": 2, "llama": 2, "lstm": 1}  # the depth of a site inside each text model
WRITTEN = ["a funny movie .", "enjoyable", "a fast enjoyable movie . funny", "a a fast movie"]
CLOSE = {"rtol": 1e-3, "atol": 1e-5}  # another batch or another padding rounds otherwise


def make(name, question):
    """Make a method for a question; a probe has to fit the model, and says something at random."""
    if name not in ("probe", "ranking"):
        return METHODS.get(name)(**SETTINGS.get(name, {}))
    seen, names = look(question.model, question.task, question.batch), question.model.sites.names
    widths, reads = ([held[site].shape[-1] for site in names] for held in (seen.states, seen.reading))
    kind = {"voter": "ranker", "votes": "separate"} if name == "ranking" else {}
    probe = make_probe(names, widths, ProbeConfig(kind="hidden", **kind), reads)
    torch.manual_seed(0)
    for parameter in probe.parameters():
        torch.nn.init.normal_(parameter)
    return METHODS.get(name)(probe)


def ask(depth=2, rows=range(12)):
    task = evidence_task()
    return Question(evidence_model(), task, task.collate(rows), depth, torch.tensor([0.5, 0.5, 0.0, 0.0]))


@pytest.fixture
def question_for(ask_text):
    """Ask a method about the toy; about a text if it needs a model with attention."""

    def question_for(name, depth=2):
        return ask_text(WRITTEN, depth) if name in NEED_ATTENTION else ask(depth)

    return question_for


def check_scores(scores, question):
    assert scores.shape == question.batch.valid.shape
    assert scores.dtype in (torch.float32, torch.float64)  # in which a probe's probabilities near 1 stay apart
    assert scores.isfinite().all() and (scores >= 0).all() and not scores.requires_grad
    assert (scores[~question.batch.valid] == 0).all()


each_method = pytest.mark.parametrize("name", METHODS.names)


@pytest.mark.parametrize("depth", [0, 2])
@each_method
def test_scores_have_the_batchs_shape_are_finite_and_zero_on_padding(name, depth, question_for):
    question = question_for(name, depth)
    check_scores(make(name, question)(question), question)


def seeded(settings):
    """Say whether a method draws: it, or a group of its settings, then has a seed."""
    names = [field.name for field in fields(settings)]
    return "seed" in names or any(seeded(v) for v in (getattr(settings, n) for n in names) if is_dataclass(v))


@each_method
def test_the_same_seed_gives_the_same_scores_and_another_one_others(name, question_for):
    question = question_for(name)
    method = make(name, question)
    first, state = method(question), torch.get_rng_state()
    torch.rand(3)  # what others draw in between is nobody's business
    assert torch.equal(method(question_for(name)), first)
    if seeded(method):
        assert not torch.equal(change(method, {"seed": 7})(question), first)
    torch.set_rng_state(state)
    method(question)
    assert torch.equal(torch.get_rng_state(), state)


@each_method
def test_a_method_leaves_the_model_as_it_was(name, question_for):
    question = question_for(name)
    method, model = make(name, question), question.model.model
    model.train()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    names, runs = {module: set(vars(module)) for module in model.modules()}, attention_implementation(model)
    method(question)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert all(module.training for module in model.modules())
    assert all(p.grad is None and p.requires_grad for p in model.parameters())
    assert not any(m._forward_hooks or m._forward_pre_hooks or m._backward_hooks for m in model.modules())
    assert all(set(vars(module)) == known for module, known in names.items())
    assert attention_implementation(model) == runs


def attention_implementation(model):
    return getattr(getattr(model, "config", None), "_attn_implementation", None)


@pytest.mark.parametrize("name", [name for name in METHODS.names if name not in NEED_ATTENTION])
def test_scores_do_not_depend_on_batch_mates(name):
    method = make(name, ask())
    torch.testing.assert_close(method(ask(rows=[3])), method(ask(rows=[1, 3, 5]))[1:2], **CLOSE)


TEXT_CASES = [(n, kind) for n in METHODS.names for kind in HIDDEN if n not in NEED_ATTENTION or kind != "lstm"]


@pytest.mark.parametrize("unit", ["token", "word"])
@pytest.mark.parametrize(("name", "kind"), TEXT_CASES)
def test_of_a_text_model_scores_do_not_depend_on_batch_mates_nor_on_padding(name, kind, unit, ask_text):
    depth = 0 if unit == "word" else HIDDEN[kind]
    among, alone = (ask_text(texts, depth, kind, unit=unit) for texts in (WRITTEN, WRITTEN[-1:]))
    method = make(name, among)
    scores, expected = method(among), method(alone)
    check_scores(scores, among)
    width = expected.shape[1]
    assert among.batch.shape[1] > alone.batch.shape[1] and (scores[-1, width:] == 0).all()
    torch.testing.assert_close(scores[-1:, :width], expected, **CLOSE)


@each_method
def test_padding_on_the_left_moves_the_scores_of_a_decoder_and_leaves_them_the_same(name, ask_text):
    right = ask_text(WRITTEN, 2, "llama")
    left = ask_text(WRITTEN, 2, "llama", padding_side="left")
    method = make(name, right)
    found, expected = method(left)[left.batch.valid], method(right)[right.batch.valid]
    torch.testing.assert_close(found, expected, **CLOSE)


@each_method
def test_a_method_works_where_gradients_are_off_and_in_half_precision(name, ask_text):
    question = ask_text(WRITTEN, 2)
    method = make(name, question)
    expected = method(question)
    with torch.no_grad():
        assert torch.equal(method(question), expected)
    question.model.model.bfloat16()
    check_scores(method(question), question)


@pytest.mark.parametrize("name", NEED_ATTENTION)
def test_a_model_that_cannot_serve_a_method_is_refused_with_the_next_step(name, ask_text):
    for question in (ask_text(WRITTEN, 1, "lstm"), ask()):
        with pytest.raises(ModelError, match=f"method '{name}' .*: use another, e.g. integrated-gradients"):
            make(name, question)(question)


def test_the_exam_gives_settings_only_to_methods_there_are():
    assert {*SETTINGS, *NEED_ATTENTION} <= set(METHODS.names)


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
