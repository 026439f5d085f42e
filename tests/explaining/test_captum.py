"""A probe behind the calls of Captum and Quantus, against the same probe asked by ourselves."""

import copy
import inspect

import numpy as np
import pytest
import torch
from torch import nn

from diffmask.attribution.method import Question
from diffmask.attribution.probe import ProbeScores
from diffmask.errors import DataError, ModelError, SettingError
from diffmask.explaining.captum import CaptumProbe, quantus_explainer
from diffmask.models.adapting import adapt
from diffmask.tasks.text import NextToken, TextClassification
from diffmask.training.config import recipe
from diffmask.training.fit import fit
from tiny_text import TEXTS, make_model, make_tokenizer, pad_left
from toys import evidence_model, evidence_task, small_recipe

SETTINGS = {"margin": 1.0, "steps": 4, "batch_size": 4, "ablation_steps": 2, "guard": False}


def fit_text(model="bert", side="right", **settings):
    tokenizer = make_tokenizer(causal=model != "bert")
    task_class = TextClassification if model == "bert" else NextToken
    texts = ["a funny movie .", "a fast enjoyable movie", "fast . funny movie"]
    task = pad_left(task_class(tokenizer, texts * 3, texts, **settings), side == "left")
    return fit(adapt(make_model(model), tokenizer), task, recipe(**SETTINGS))


@pytest.fixture(scope="module")
def fitted():
    return fit_text()


def own_scores(fitted, depth, batch=None):
    batch = batch or fitted.task.collate(TEXTS)
    question = Question(fitted.model, fitted.task, batch, depth, torch.zeros(16))
    return ProbeScores(fitted.probe)(question)


def predicted(fitted):
    return fitted.model.model(**fitted.task.collate(TEXTS).inputs).logits.argmax(-1)


def test_scores_are_the_probes_own_at_every_depth(fitted):
    inputs = fitted.task.collate(TEXTS).inputs
    ids, more = inputs["input_ids"], (inputs["attention_mask"], inputs["token_type_ids"])
    assert not inputs["attention_mask"].bool().all()
    for depth in range(fitted.probe.depth_count):
        found = CaptumProbe(fitted, depth).attribute(ids, additional_forward_args=more)
        assert found.shape == ids.shape
        torch.testing.assert_close(found, own_scores(fitted, depth))
    last = CaptumProbe(fitted).attribute(ids, attention_mask=more[0], token_type_ids=more[1])
    named = CaptumProbe(fitted, fitted.probe.site_names[-1]).attribute(ids, None, more)
    assert torch.equal(last, found) and torch.equal(named, found)


def test_a_single_argument_may_come_without_a_tuple_and_without_one_all_is_real(fitted):
    inputs, probe = fitted.task.collate(TEXTS).inputs, CaptumProbe(fitted)
    with_mask = probe.attribute(inputs["input_ids"], additional_forward_args=inputs["attention_mask"])
    torch.testing.assert_close(with_mask, own_scores(fitted, fitted.probe.depth_count - 1))
    assert (probe.attribute(inputs["input_ids"]) > 0).all()


@pytest.mark.parametrize(
    ("model", "side", "settings"),
    [
        ("bert", "right", {"gate_special": False}),
        ("bert", "right", {"ask": "first"}),
        ("llama", "left", {}),
        ("llama", "right", {}),
        ("llama", "left", {"gate_special": True}),
    ],
)
def test_what_is_never_gated_and_where_the_answer_is_given_are_found_in_the_ids(model, side, settings):
    found = fit_text(model, side, **settings)
    batch = found.task.collate([*TEXTS, "an unknown movie"])
    assert found.task.tokenizer.unk_token_id in batch.inputs["input_ids"]
    scores = CaptumProbe(found).attribute(batch.inputs["input_ids"], None, batch.inputs["attention_mask"])
    torch.testing.assert_close(scores, own_scores(found, found.probe.depth_count - 1, batch))
    assert torch.equal(scores > 0, batch.valid)


def test_the_predicted_label_may_be_asked_for_and_no_other(fitted):
    inputs, probe, labels = fitted.task.collate(TEXTS).inputs, CaptumProbe(fitted), predicted(fitted)
    more = (inputs["attention_mask"], inputs["token_type_ids"])
    expected = probe.attribute(inputs["input_ids"], None, more)
    for target in (labels, labels.tolist()):
        assert torch.equal(probe.attribute(inputs["input_ids"], target, more), expected)
    other = labels.clone()
    other[1] = (labels[1] + 1) % 3
    complaint = (
        rf"example 1 was asked about target {int(other[1])} and the model predicts {int(labels[1])}: .*target=None"
    )
    with pytest.raises(SettingError, match=complaint):
        probe.attribute(inputs["input_ids"], other, more)
    with pytest.raises(SettingError, match="target names 2 labels for 3 examples"):
        probe.attribute(inputs["input_ids"], [0, 1], more)


def test_words_cannot_be_told_from_ids_unless_the_user_makes_the_batch():
    found = fit_text(unit="word")
    batch = found.task.collate(TEXTS)
    with pytest.raises(DataError, match=r"TextClassification finds its words in the text, .* make_batch"):
        CaptumProbe(found).attribute(batch.inputs["input_ids"])
    scores = CaptumProbe(found, make_batch=lambda inputs: batch).attribute(batch.inputs["input_ids"])
    own = own_scores(found, found.probe.depth_count - 1)
    for row, text in enumerate(TEXTS):
        for position, unit in enumerate(found.task.encoded(text).place):
            assert scores[row, position] == own[row, unit]
    assert (scores[batch.inputs["attention_mask"] == 0] == 0).all()


def test_tasks_that_look_into_the_text_are_refused():
    with pytest.raises(DataError, match="finds what is never gated in the text"):
        CaptumProbe(fit_text(keep=["movie"])).attribute(torch.tensor([[1, 4, 2]]))


def test_too_many_arguments_and_unknown_depths_are_refused(fitted):
    with pytest.raises(SettingError, match="additional_forward_args has 40 arguments, and BertForSeq"):
        CaptumProbe(fitted).attribute(torch.tensor([[1, 4, 2]]), None, (None,) * 40)
    with pytest.raises(SettingError, match="depth 9 does not exist"):
        CaptumProbe(fitted, 9)


def test_it_is_called_as_a_captum_method_is(fitted):
    from captum.attr import FeatureAblation, IntegratedGradients

    probe, names = CaptumProbe(fitted), {"inputs", "target", "additional_forward_args"}
    assert probe.has_convergence_delta() is FeatureAblation(fitted.model.model).has_convergence_delta() is False
    for method in (probe, FeatureAblation(fitted.model.model), IntegratedGradients(fitted.model.model)):
        assert names <= set(inspect.signature(method.attribute).parameters)


def test_a_model_of_any_kind_with_tensors_as_its_input_is_scored():
    task = evidence_task()
    found = fit(evidence_model(), task, small_recipe(steps=4))
    batch = task.collate(range(5))
    probe = CaptumProbe(found, make_batch=lambda inputs: type(batch)(inputs, inputs["valid"]))
    scores = probe.attribute(batch.inputs["tokens"], None, batch.inputs["valid"])
    own = ProbeScores(found.probe)(Question(found.model, task, batch, 2, torch.zeros(4)))
    torch.testing.assert_close(scores, own)
    with pytest.raises(SettingError, match="this model predicts output: pass target=None"):
        probe.attribute(batch.inputs["tokens"], 1, batch.inputs["valid"])


class Logits(nn.Module):
    """What Quantus asks for: a model that returns a tensor."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(ids).logits


def test_quantus_gets_an_array_of_the_shape_of_its_inputs(fitted):
    inputs = fitted.task.collate(TEXTS).inputs
    arrays = {name: inputs[name].numpy() for name in ("attention_mask", "token_type_ids")}
    explain_func, labels = quantus_explainer(fitted, 1), predicted(fitted).numpy()
    for model in (fitted.model.model, Logits(fitted.model.model)):
        found = explain_func(model, inputs["input_ids"].numpy(), labels, device="cpu", **arrays)
        assert isinstance(found, np.ndarray) and found.shape == tuple(inputs["input_ids"].shape)
        np.testing.assert_allclose(found, own_scores(fitted, 1).numpy(), rtol=1e-5)
    by_name = explain_func(model=fitted.model.model, inputs=inputs["input_ids"], targets=labels, **arrays)
    assert (by_name == found).all()


def test_quantus_may_not_ask_about_another_model(fitted):
    with pytest.raises(ModelError, match="fitted to another BertForSequenceClassification"):
        quantus_explainer(fitted)(copy.deepcopy(fitted.model.model), np.array([[1, 4, 2]]), None)
