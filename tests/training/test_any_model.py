"""A fit is the same in whatever state a model or PyTorch was left by what came before."""

import pytest
import torch

from diffmask.errors import DataError, SettingError
from diffmask.models.adapting import adapt
from diffmask.tasks.text import TextClassification
from diffmask.training.config import recipe
from diffmask.training.fit import fit
from tiny_text import make_model, make_tokenizer

TEXTS = ["a funny movie .", "a fast enjoyable movie", "fast . funny movie", "enjoyable", "what a movie ?"]
BEFORE = {
    "checkpoints": lambda model: model.gradient_checkpointing_enable(),
    "gradients of its inputs": lambda model: model.enable_input_require_grads(),
    "no gradients at all": lambda model: torch.set_grad_enabled(False),
    "trained": lambda model: model.train(),
}


def fitted(prepare, cache):
    model, tokenizer = make_model("bert"), make_tokenizer()
    prepare(model)
    config = recipe(margin=0.05, steps=3, batch_size=2, ablation_steps=2, guard=False, cache=cache)
    try:
        return fit(adapt(model, tokenizer), TextClassification(tokenizer, TEXTS, TEXTS), config)
    finally:
        torch.set_grad_enabled(True)


@pytest.mark.parametrize("cache", ["off", "memory"])
@pytest.mark.parametrize("before", BEFORE)
def test_what_came_before_a_fit_changes_nothing(before, cache):
    plain, other = (fitted(prepare, cache).probe.state_dict() for prepare in (lambda model: None, BEFORE[before]))
    assert all(torch.equal(plain[name], other[name]) for name in plain)


def test_inference_mode_is_refused_in_a_sentence():
    with torch.inference_mode(), pytest.raises(SettingError, match=r"torch.inference_mode\(\) knows none: call it out"):
        fitted(lambda model: None, "off")


def test_a_text_that_cannot_be_used_is_named_by_its_row():
    tokenizer = make_tokenizer()
    task = TextClassification(tokenizer, TEXTS, ["fun", " "])
    with pytest.raises(DataError, match="validation example 1: a text is empty"):
        fit(adapt(make_model("bert"), tokenizer), task, recipe(steps=1))
