"""Tasks go to plain data and back."""

import json

import pytest

from diffmask.errors import SettingError, UnknownNameError
from diffmask.settings import from_dict
from diffmask.tasks.described import TASKS, TaskConfig, describe, make_task
from diffmask.tasks.images import ImageClassification, PlainProcessor
from tiny_text import TEXTS, make_tokenizer
from toys import evidence_task


@pytest.mark.parametrize("kind", [kind for kind in TASKS.names if kind != "image"])
def test_a_text_task_is_made_again_from_its_description(kind):
    settings = {"around": 3, "unit": "word", "keep": ["Movie"], "max_length": 9, "strict": True}
    task = make_task({"kind": kind, "settings": settings}, make_tokenizer(), TEXTS, TEXTS)
    described = json.loads(json.dumps(describe(task)))
    again = make_task(described, make_tokenizer())
    assert type(again) is type(task) and describe(again) == described and not again.train
    assert (
        again.keep == {"movie"}
        and again.strict
        and again.max_length == 9
        and (again.ask, again.around) == (task.ask, 3)
    )


def test_a_tokenizer_is_changed_as_it_was():
    task = make_task({"kind": "classification", "settings": {}}, make_tokenizer(truncation_side="left"), TEXTS, TEXTS)
    assert make_task(describe(task), make_tokenizer()).tokenizer.truncation_side == "left"


def test_what_only_its_author_can_make_again_has_no_description():
    images = [[0]]
    own = ImageClassification(PlainProcessor((4, 4)), images, images, patch=2, output=lambda output: {})
    assert describe(own) is None and describe(evidence_task()) is None


@pytest.mark.parametrize(("kind", "named"), [("classification", True), ("image", True), ("next-token", False)])
def test_only_kinds_that_have_labels_get_their_names(kind, named):
    described = TaskConfig(kind).described(["LABEL_0", "LABEL_1"], (4, 4))
    assert bool(described["settings"].get("labels")) is named


def test_special_tokens_are_gated_as_usual_or_as_asked():
    assert "gate_special" not in TaskConfig().described(None, None)["settings"]
    assert TaskConfig("next-token", special="gated").described(None, None)["settings"]["gate_special"]


def test_settings_that_cannot_be_are_refused():
    with pytest.raises(UnknownNameError, match="no task named 'spam'; did you mean 'span'"):
        TaskConfig("spam")
    with pytest.raises(SettingError, match=r"max_length must be 0 or a number of tokens, got -1"):
        TaskConfig(max_length=-1)
    with pytest.raises(SettingError, match=r"run\.gate: no choice named 'third'"):
        from_dict(TaskConfig, {"gate": "third"}, "run")
