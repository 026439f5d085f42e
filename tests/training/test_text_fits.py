"""What a fit to a text model refuses before it runs: labels and heads that are not the model's."""

import pytest
import transformers

from diffmask.errors import DataError, ModelError
from diffmask.models.adapting import adapt
from diffmask.tasks.continuation import Continuation
from diffmask.tasks.text import (
    MultiLabelClassification,
    NextToken,
    SpanAnswer,
    TextClassification,
    TextRegression,
    TokenClassification,
)
from diffmask.training.fit import check_fit, fit
from diffmask.training.step import look
from saved_models import short
from tiny_text import SIZES, TEXTS, make_model, make_tokenizer

NAMES = ["negative", "neutral", "positive"]


def check(labels, own=NAMES):
    model = make_model("bert", id2label=dict(enumerate(own)), label2id={name: i for i, name in enumerate(own)})
    check_fit(adapt(model), TextClassification(make_tokenizer(), TEXTS, TEXTS, labels=labels))


@pytest.mark.parametrize("labels", [NAMES[::-1], ["Neutral", "Negative", "Positive"]])
def test_the_models_own_labels_in_another_order_are_refused_with_its_order(labels):
    with pytest.raises(DataError, match=rf"{labels[0]}.* has them as negative, neutral, positive: write them in the"):
        check(labels)


def test_other_names_rename_the_labels():
    for labels in (NAMES, [name.title() for name in NAMES], ["bad", "fair", "good"], ["positive", "bad", "fair"], None):
        check(labels)


def test_one_name_for_two_labels_is_refused_unless_it_is_the_models():
    with pytest.raises(DataError, match=r"names two of them 'bad' \(bad, bad, good\): give each a name of its own"):
        check(["bad", "bad", "good"])
    check(["crane", "crane", "bird"], own=["crane", "crane", "bird"])


BERT_TOKENS, BERT_SPANS = "BertForTokenClassification", "BertForQuestionAnswering"


def make(kind):
    """Make a tiny model with some head, by its class or as others do."""
    if not kind.startswith("BertFor"):
        return make_model("bert", num_labels=1) if kind == "bert1" else make_model(kind)
    config = transformers.BertConfig(**SIZES, num_labels=2 if kind == BERT_SPANS else 3)
    return getattr(transformers, kind)(config).eval()


@pytest.mark.parametrize(
    ("task", "kind", "said"),
    [
        (TextClassification, BERT_TOKENS, r"reads labels of a text, and .* labels of every token .*3\)\): take TokenC"),
        (TextClassification, "llama", r"gives tokens of a vocabulary \(logits of shape .*14\)\): take NextToken"),
        (
            TextClassification,
            "bert1",
            r"gives one number for a text \(logits of shape .*1\)\): take TextRegr",
        ),
        (MultiLabelClassification, BERT_TOKENS, r"reads labels of a text, and the model gives labels of every token"),
        (TextRegression, "bert", r"reads one number for a text, and the model gives labels of a text"),
        (TextRegression, "gpt2", r"reads one number for a text, and the model gives tokens of a vocabulary"),
        (TokenClassification, "bert", r"reads labels of every token, and the model gives labels of a text"),
        (TokenClassification, "gpt2", r"reads labels of every token, and the model gives tokens of a vocabulary"),
        (NextToken, "bert", r"reads tokens of a vocabulary, and the model gives labels of a text"),
        (NextToken, BERT_TOKENS, r"reads tokens of a vocabulary, and the model gives labels of every token"),
        (Continuation, "bert", r"reads tokens of a vocabulary, and the model gives labels of a text"),
        (TextClassification, BERT_SPANS, r"reads logits, and the model gives start_logits, end_logits"),
        (SpanAnswer, "bert", r"reads start_logits, and the model gives logits"),
    ],
)
def test_a_model_with_another_head_than_the_task_reads_is_refused_by_what_it_gives(task, kind, said):
    tokenizer = make_tokenizer(causal=kind in ("llama", "gpt2"))
    texts = [(text, "a movie") for text in TEXTS] if task.pairs else [f"{text} a" for text in TEXTS]
    with pytest.raises(ModelError, match=f"{task.__name__} .*{said}.*"):
        fit(adapt(make(kind), tokenizer), task(tokenizer, texts * 2, texts), short())


def test_one_label_that_may_or_may_not_be_right_is_a_label():
    tokenizer = make_tokenizer()
    task, model = MultiLabelClassification(tokenizer, TEXTS, TEXTS), adapt(make("bert1"), tokenizer)
    assert look(model, task, task.collate(TEXTS)).original["labels"].raw.shape == (3, 1)
