"""What is handed over as examples, and what a model gives a task to read."""

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

from diffmask.errors import DataError, ModelError, SettingError
from diffmask.evaluation.compare import compare
from diffmask.explaining.certify import certify
from diffmask.explaining.chunks import check_fit
from diffmask.explaining.embedded import load_embedded
from diffmask.explaining.explain import explain
from diffmask.models.adapting import adapt
from diffmask.tasks.task import check_examples
from diffmask.tasks.text import SpanAnswer, TextClassification, TextRegression
from diffmask.training.config import recipe
from diffmask.training.fit import fit
from tiny_text import SIZES, TEXTS, make_model, make_tokenizer


@pytest.mark.parametrize(
    ("given", "way"),
    [
        ("one text", r"\[text\]"),
        (np.array(["a"]), r"list\(examples\)"),
        ({"a": 1}, r"\[example\]"),
        (7, r"\[example\]"),
    ],
)
def test_what_is_no_list_of_examples_is_refused_with_the_way_to_pass_it(given, way):
    with pytest.raises(DataError, match=f"examples must be a list, got .*: .*pass {way}"):
        check_examples(given)


def test_one_text_is_never_taken_for_its_letters():
    fitted = load_embedded()
    for ask in (explain, certify, lambda fitted, text: compare(fitted, text, ["random"], ["sufficiency"])):
        with pytest.raises(DataError, match="got one text"):
            ask(fitted, "fine")
    with pytest.raises(DataError, match="got one text"):
        TextClassification(make_tokenizer(), "fine", TEXTS)


def test_a_model_is_no_fitted_probe_and_no_example_fits_into_a_batch_of_none():
    with pytest.raises(SettingError, match="got Adapter: fit a probe to the model first"):
        check_fit(adapt(make_model("bert")))
    with pytest.raises(SettingError, match="batch_size must be at least 1, got 0"):
        explain(load_embedded(), TEXTS, batch_size=0)


@pytest.mark.parametrize(
    ("task", "missing"), [(TextClassification, "logits"), (SpanAnswer, "start_logits"), (TextRegression, "logits")]
)
def test_a_model_without_the_head_that_a_task_reads_is_refused(task, missing):
    torch.manual_seed(0)
    model = adapt(BertModel(BertConfig(**SIZES)), make_tokenizer())
    with pytest.raises(ModelError, match=rf"{task.__name__} reads {missing}, and the model gives last_hidden_state"):
        texts = [("what ?", text) for text in TEXTS]
        fit(model, task(make_tokenizer(), texts, texts))


def test_a_value_that_is_predicted_is_written_down_and_decides_nothing():
    tokenizer = make_tokenizer()
    task = TextRegression(tokenizer, TEXTS, TEXTS)
    fitted = fit(adapt(make_model("bert", num_labels=1), tokenizer), task, recipe("text", steps=2, ablation_steps=1))
    checked = explain(fitted, TEXTS[:1])[0].verification
    with torch.no_grad():
        (expected,) = fitted.model(task.collate(TEXTS[:1])).logits.tolist()
    assert checked.original["value"] == pytest.approx(expected, abs=1e-5)
    assert checked.same_prediction is None and checked.measure == "squared-error"
