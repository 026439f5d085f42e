"""An explainer is called with examples, and with what they should be explained for."""

import pytest
import torch

import diffmask
from diffmask.errors import DataError, SettingError
from diffmask.explaining.target import check_targets, label_index, parse
from diffmask.explanation import Explanation, Verification

TEXTS = ["A fast, funny, highly enjoyable movie.", "Dull and far too long."]


@pytest.fixture(scope="module")
def explainer():
    return diffmask.Explainer.from_pretrained("embedded")


def test_calling_it_explains(explainer):
    found = explainer(TEXTS)
    assert [one.units for one in found] == [one.units for one in diffmask.explain(explainer.fitted, TEXTS)]
    assert explainer(TEXTS, verify=False)[0].verification is None


def test_one_text_is_no_list_of_texts(explainer):
    with pytest.raises(DataError, match=r"got one text: pass \[text\]"):
        explainer(TEXTS[0])


def test_its_settings_are_used(explainer):
    certified = diffmask.Explainer(explainer.fitted, depth=0, certified=True, batch_size=1)(TEXTS)
    assert all(one.certified and one.depth == 0 for one in certified)
    with pytest.raises(SettingError, match="depth 9 does not exist"):
        diffmask.Explainer(explainer.fitted, depth=9)


@pytest.mark.parametrize("target", ["predicted", None, ["positive", "negative"], [1, 0], ["1", "predicted"]])
def test_what_is_predicted_can_be_asked_about(explainer, target):
    assert len(explainer(TEXTS, target, verify=False)) == 2


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        (
            "positive",
            "example 1 was asked about 'positive' and the model predicts 'negative': a probe explains what is",
        ),
        (0, "example 0 was asked about 'negative'"),
        ("postive", "no label named 'postive'; did you mean 'positive'"),
        (7, "there is no label 7: the model knows negative, positive, counted from 0"),
        ((3, 5), "the model predicts label, no span"),
        (["positive"], "1 targets were given for 2 examples"),
    ],
)
def test_anything_else_is_refused_with_the_next_step(explainer, target, complaint):
    with pytest.raises(SettingError, match=complaint):
        explainer(TEXTS, target)


def checked(target, **original):
    seen = Verification(0.0, 0.1, "kl", original, original)
    one = Explanation(("a",), ("x",), torch.zeros(1, 1), 0, torch.tensor([True]), seen)
    check_targets([one], target)


def test_a_span_is_its_two_ends():
    checked((3, 5), start=3, end=5)
    with pytest.raises(SettingError, match="the span 3:4 and the model predicts 3:5"):
        checked((3, 4), start=3, end=5)
    with pytest.raises(SettingError, match="predicts start and end: name a span"):
        checked(3, start=3, end=5)


def test_a_step_can_be_asked_about_where_there_is_one():
    checked(0, continuation=[17])
    with pytest.raises(SettingError, match="keeps all 2 steps of continuation together"):
        checked(1, continuation=[17, 4])
    with pytest.raises(SettingError, match="there is no step '2'"):
        checked("2", continuation=[17, 4])


def test_a_value_has_no_target():
    with pytest.raises(SettingError, match="predicts a value and no label"):
        checked(1, value=0.5)


def test_targets_are_read_as_they_are_typed():
    assert parse("3:5") == (3, 5) and parse("2") == 2 and parse("predicted") == "predicted"
    assert label_index("1", ["0", "1"]) == 1 and label_index("2", None) == 2
