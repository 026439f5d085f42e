"""What a model answers has a name where one is known: labels by the model's own names, tokens by what they say."""

import pytest
import torch

from diffmask.errors import DataError, SettingError
from diffmask.explaining.explain import explain
from diffmask.explaining.target import check_targets
from diffmask.explanation import Explanation
from diffmask.models.adapting import adapt
from diffmask.models.hub import fetch
from diffmask.models.pretrained import load_model, load_processor
from diffmask.report.plain import record
from diffmask.tasks.described import TASKS
from diffmask.training.fit import fit
from saved_models import LABELS, TEXTS, save_model, short

NAMES = list(LABELS["id2label"].values())
FOLLOWED = [(text, "a movie") for text in TEXTS]


@pytest.fixture(scope="module")
def fits(tmp_path_factory):
    """Fit each kind of task once, without naming any label."""

    def make(kind):
        place = fetch(save_model(tmp_path_factory.mktemp(kind), kind))
        tokenizer, texts = load_processor(place, kind), FOLLOWED if kind == "continuation" else TEXTS
        return fit(adapt(load_model(place, kind), tokenizer), TASKS.get(kind)(tokenizer, texts * 2, texts), short())

    return {kind: make(kind) for kind in ("multi-label", "token", "next-token", "continuation")}


def test_of_several_labels_those_that_hold_are_named(fits):
    for found in explain(fits["multi-label"], TEXTS):
        flags = found.verification.original["labels"]
        assert all(type(flag) is bool for flag in flags)
        held = ", ".join(name for name, flag in zip(NAMES, flags, strict=True) if flag)
        assert record(found, "")["prediction"] == (held or "none of bad, fair, good")


def test_the_labels_of_tokens_are_named_one_for_each_token_and_none_for_padding(fits):
    together = explain(fits["token"], ["a funny movie .", "fast"])
    for found, text in zip(together, ["a funny movie .", "fast"], strict=True):
        names = record(found, "")["prediction"].split(", ")
        assert len(names) == len(found.units) == len(found.verification.masked["labels"]) and set(names) <= set(NAMES)
        assert found.verification.original == explain(fits["token"], [text])[0].verification.original


@pytest.mark.parametrize("kind", ["next-token", "continuation"])
def test_tokens_are_named_by_what_they_say_also_after_saving(fits, kind, tmp_path):
    tokenizer, texts = fits[kind].task.tokenizer, FOLLOWED if kind == "continuation" else TEXTS
    for found in explain(fits[kind], texts):
        (decided,) = found.verification.original.values()
        tokens = decided if isinstance(decided, list) else [decided]
        said = ", ".join(tokenizer.decode([token]) for token in tokens)
        found.save(tmp_path / "x")
        assert record(found, "")["prediction"] == record(Explanation.load(tmp_path / "x"), "")["prediction"] == said


def test_labels_that_are_not_the_models_are_refused_by_every_task_that_has_some(fits):
    for kind in ("multi-label", "token"):
        task = fits[kind].task
        other = type(task)(task.tokenizer, [], [], labels=["yes", "no"])
        batch = other.collate(TEXTS)
        with torch.no_grad(), pytest.raises(DataError, match=r"2 labels are named .* and the model knows 3"):
            other.read(fits[kind].model(batch), batch)


def test_a_target_may_be_a_token_and_no_single_label_of_several(fits):
    fitted = fits["next-token"]
    found = explain(fitted, TEXTS[:1])
    said = record(found[0], "")["prediction"]
    check_targets(found, said)
    with pytest.raises(
        SettingError, match=f"example 0 was asked about 'nothing' and the model predicts '.*{said[-1]}'"
    ):
        check_targets(found, "nothing")
    fitted = fits["multi-label"]
    with pytest.raises(SettingError, match=r"yes or no to each of its 3 labels and .*: leave target at 'predicted'"):
        check_targets(explain(fitted, TEXTS[:1]), "fair")
    fitted = fits["token"]
    with pytest.raises(SettingError, match=r"keeps all 6 steps of labels together.*leave target at 'predicted'$"):
        check_targets(explain(fitted, ["a funny movie"]), "1")
