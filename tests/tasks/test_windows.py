"""Models that lengthen their inputs to whole windows: refused with what to do, and explained where the task does it."""

import pytest
import torch
from transformers import LongformerConfig, LongformerForSequenceClassification

from diffmask.errors import SettingError, SiteError
from diffmask.explaining.explain import explain
from diffmask.models.adapting import adapt
from diffmask.tasks.described import describe, make_task
from diffmask.tasks.text import TextClassification
from diffmask.training.config import recipe
from diffmask.training.fit import fit
from tiny_text import TEXTS, make_tokenizer

WINDOW = 16
BRIEFLY = {"steps": 4, "batch_size": 2, "ablation_steps": 1, "validate_every": 2, "guard": False}


@pytest.fixture
def model():
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    more = {"intermediate_size": 24, "max_position_embeddings": 60, "pad_token_id": 0, "sep_token_id": 2}
    longformer = LongformerForSequenceClassification(LongformerConfig(**sizes, **more, attention_window=[WINDOW] * 2))
    return adapt(longformer.eval())


def task_of(unit="token", **settings):
    tokenizer = make_tokenizer(model_input_names=["input_ids", "attention_mask"])
    return TextClassification(tokenizer, TEXTS * 3, TEXTS, unit=unit, **settings)


def test_a_model_with_windows_says_how_the_task_has_to_pad(model):
    with pytest.raises(SiteError, match=rf"lengthens texts to whole windows, let the task do it, pad_to={WINDOW}"):
        fit(model, task_of(), recipe("text", **BRIEFLY))


@pytest.mark.parametrize("unit", ["token", "word"])
def test_padded_to_its_windows_it_is_explained(model, unit):
    task = task_of(unit, pad_to=WINDOW)
    batch = task.collate(TEXTS)
    assert batch.inputs["input_ids"].shape[1] == WINDOW and batch.valid.shape[1] == (WINDOW if unit == "token" else 8)
    found = explain(fit(model, task, recipe("text", **BRIEFLY)), TEXTS)
    for text, each, units in zip(TEXTS, found, task.units(TEXTS), strict=True):
        assert each.units == tuple(units) and each.verification is not None, text


def test_padding_further_changes_nothing_else():
    near, far = task_of(), task_of(pad_to=WINDOW)
    one, other = near.collate(TEXTS), far.collate(TEXTS)
    length = one.valid.shape[1]
    assert torch.equal(one.valid, other.valid[:, :length]) and not other.valid[:, length:].any()
    assert torch.equal(one.inputs["input_ids"], other.inputs["input_ids"][:, :length])
    assert not other.inputs["attention_mask"][:, length:].any()


def test_a_saved_task_still_pads():
    described = describe(task_of(pad_to=WINDOW))
    assert make_task(described, make_tokenizer()).pad_to == WINDOW
    described["settings"].pop("pad_to")  # as those saved before
    assert make_task(described, make_tokenizer()).pad_to == 1


def test_no_text_is_padded_beyond_what_the_model_takes():
    task = task_of(pad_to=10)  # the tokenizer's longest is 24
    assert task.collate(["a funny movie . " * 8]).inputs["input_ids"].shape[1] == task.max_length == 20
    task.limit(16)
    assert task.collate(["a funny movie . " * 8]).inputs["input_ids"].shape[1] == 10
    with pytest.raises(SettingError, match="at most the 24 that a text may have, got 32"):
        task_of(pad_to=32)
    with pytest.raises(SettingError, match="at most the 8 that a text may have, got 10"):
        task.limit(8)


@pytest.mark.parametrize("wrong", [0, -1])
def test_what_is_no_number_of_tokens_is_refused(wrong):
    with pytest.raises(SettingError, match="pad_to must be 1 or a number of tokens"):
        task_of(pad_to=wrong)
