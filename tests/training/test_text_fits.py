"""What a fit to a text model refuses before it runs: labels and heads that are not the model's."""

import pytest

from diffmask.errors import DataError
from diffmask.models.adapting import adapt
from diffmask.tasks.text import TextClassification
from diffmask.training.fit import check_fit
from tiny_text import TEXTS, make_model, make_tokenizer

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
