"""Attentive classifiers are models like any other: sites, probes, rivals, removals and metrics work on them."""

import pytest
import torch

from attentive_toys import make_corpus, make_model, make_task
from diffmask.attention import ENCODERS
from diffmask.attention.classifier import adapt_attentive
from diffmask.attention.own_attention import OwnAttention
from diffmask.attribution import METHODS
from diffmask.attribution.method import Question
from diffmask.errors import ModelError
from diffmask.evaluation import REMOVALS
from diffmask.evaluation.compare import compare
from diffmask.evaluation.figure import predict
from diffmask.models.adapting import adapt
from diffmask.models.sites import capture, replace, resume
from diffmask.tasks.documents import DocumentTask
from diffmask.training.fit import fit
from toys import evidence_model, evidence_task, small_recipe

CORPUS = make_corpus(24)
TASK = make_task(CORPUS)
TEXTS = ["class0 w1 w2 w3", "w4 class1", "w5 class1 w6 w7 w8"]
BATCH = TASK.collate(TEXTS)
QUICK = [
    "gradient",
    "gradient-input",
    "integrated-gradients",
    "leave-one-out",
    "kernel-shap",
    "lime",
    "erasure",
    "greedy",
]
every = pytest.mark.parametrize("encoder", ENCODERS.names)
by_adapter = pytest.mark.parametrize("adapted", [adapt, adapt_attentive])


def ask(depth=0, task=TASK, **settings):
    model = make_model(task, **settings)
    width = 8 if depth == 0 else model.hidden_width
    return Question(adapt_attentive(model), task, task.collate(TEXTS), depth, torch.zeros(width))


@every
def test_sites_are_embeddings_layers_and_hidden_states(encoder):
    model = make_model(TASK, encoder=encoder, layers=2, join="concat")
    assert adapt_attentive(model).sites.names == ("embedding", "layer 0", "hidden states")
    assert adapt(model).sites.names == ("embedding", "layers.0:input", "layers.0", "layers.1")


@every
@by_adapter
def test_a_state_replaced_by_itself_changes_nothing_and_by_another_something(encoder, adapted):
    model = adapted(make_model(TASK, encoder=encoder, layers=2))
    with torch.no_grad(), model.frozen():
        with capture(model.sites) as states:
            before = model(BATCH).logits
        for site in model.sites:
            with replace(site, states[site.name]):
                assert torch.equal(model(BATCH).logits, before)
            with resume(site, states[site.name], states):
                assert torch.equal(model(BATCH).logits, before)
            with replace(site, states[site.name] + 1):
                assert not torch.allclose(model(BATCH).logits, before)


@every
@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("name", QUICK)
def test_rivals_score_words_and_nothing_else(name, depth, encoder):
    question = ask(depth, encoder=encoder, projection="sparsemax", hidden=2)
    scores = METHODS.get(name)(**({"samples": 16} if name in ("lime", "kernel-shap") else {}))(question)
    assert scores.shape == BATCH.valid.shape and scores.isfinite().all()
    assert (scores[~BATCH.valid] == 0).all()


@pytest.mark.parametrize("name", REMOVALS.names)
@pytest.mark.parametrize("side", ["right", "left"])
def test_every_removal_works_and_keeping_all_is_the_original(name, side):
    question = ask(task=make_task(CORPUS, side=side))
    keeps = torch.stack([torch.ones(BATCH.valid.shape), torch.zeros(BATCH.valid.shape)])
    kept, none = REMOVALS.get(name)()(question, keeps)
    original = predict(question)["label"].raw
    assert torch.allclose(kept["label"].raw, original, atol=1e-5)
    assert none["label"].raw.isfinite().all() and not torch.allclose(none["label"].raw, original)


def test_a_document_of_which_every_word_is_deleted_is_answered_by_the_bias():
    question = ask()
    (none,) = REMOVALS.get("deletion")()(question, torch.zeros(1, *BATCH.valid.shape))
    assert torch.allclose(none["label"].raw, question.model.model.decoder.bias.expand(3))


@pytest.mark.parametrize("labels", [1, 2, 3])
def test_a_comparison_judges_attention_beside_rivals(labels):
    model = adapt_attentive(make_model(TASK, labels=labels))
    task = DocumentTask(TASK.vocabulary, TEXTS, TEXTS)
    methods = {"attention": OwnAttention(), "gradient": METHODS.get("gradient")(), "random": METHODS.get("random")()}
    found = compare(model, task, methods, ["sufficiency", "comprehensiveness", "srg"], depth=0, baseline=torch.zeros(8))
    assert not found.failures


@pytest.mark.parametrize("settings", [{}, {"encoder": "transformer", "alignment": "dot", "projection": "sparsemax"}])
def test_a_probe_is_fitted(settings):
    model = adapt_attentive(make_model(TASK, **settings))
    before = {name: weight.clone() for name, weight in model.model.state_dict().items()}
    found = fit(model, TASK, small_recipe(steps=4, batch_size=8, guard=False))
    assert found.probe is not None
    assert all(torch.equal(weight, before[name]) for name, weight in model.model.state_dict().items())


def test_own_attention_is_the_classifiers_weights_at_the_words():
    question = ask()
    scores = OwnAttention()(question)
    expected = question.model.model(**BATCH.inputs).attention
    assert torch.equal(scores, expected.detach()) and torch.allclose(scores.sum(1), torch.ones(3))


def test_own_attention_of_a_model_without_one_is_refused():
    task = evidence_task()
    question = Question(evidence_model(), task, task.collate(range(4)), 0, None)
    with pytest.raises(ModelError, match="use method 'attention'"):
        OwnAttention()(question)
