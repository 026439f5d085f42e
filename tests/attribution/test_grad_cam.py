"""Grad-CAM against a copy of the model whose last norm is watched by hand, and against what a linear model must say."""

import pytest
import torch

from diffmask.attribution.grad_cam import GradCam, cam
from diffmask.attribution.method import Question
from diffmask.errors import ModelError
from diffmask.models.adapting import adapt
from diffmask.models.norm import read_by_last_block
from diffmask.tasks.images import ImageClassification
from diffmask.tasks.tensors import TensorTask
from patch_toy import evidence_images, patch_problem
from tiny_vision import ARCHITECTURES, PATCH, build, images

TEXTS = ["a funny movie .", "enjoyable", "a fast enjoyable movie . funny"]
VISION = [name for name in ARCHITECTURES if not name.startswith(("Swin", "CLIPVision"))]
FIRST_NORMS = {"layernorm_before", "layer_norm1", "norm1", "input_layernorm"}  # as the releases of transformers name it


def watch(model, module, side, inputs, score):
    """Run a model by hand and return one activation and the gradient of a score with respect to it."""
    kept = []

    def on_output(module, args, out):
        kept.append(out)
        out.retain_grad()

    def on_input(module, args, kwargs):
        kept.append(args[0] if args else kwargs["hidden_states"])
        kept[0].retain_grad()

    handle = (
        module.register_forward_hook(on_output)
        if side == "output"
        else module.register_forward_pre_hook(on_input, with_kwargs=True)
    )
    model.requires_grad_(True)
    score(model(**inputs)).backward()
    handle.remove()
    state, slope = kept[0].detach()[0], kept[0].grad[0]
    model.zero_grad()
    return state, slope


def slow(state, slope, first):
    """Write the map out, feature by feature, over the positions from `first` on."""
    scores = torch.zeros(len(state) - first)
    for feature in range(state.shape[1]):
        scores += slope[first:, feature].mean() * state[first:, feature]
    return scores.clamp_min(0)


def last_norm(model):
    named = [(name, module) for name, module in model.named_modules() if name.split(".")[-1] in FIRST_NORMS]
    return named[-1][1]


@pytest.mark.parametrize("name", VISION)
def test_it_agrees_with_the_last_blocks_first_norm_watched_by_hand(name):
    model, pixels, prefix = build(name), images(name), ARCHITECTURES[name][2]
    task = ImageClassification(None, pixels, pixels, patch=PATCH)
    found = GradCam()(Question(adapt(model), task, task.collate(list(pixels)), 0, None))
    for row in range(2):
        inputs = {"pixel_values": pixels[row : row + 1].clone()}
        state, slope = watch(model, last_norm(model), "output", inputs, lambda out: out.logits[0].max())
        torch.testing.assert_close(found[row], slow(state, slope, prefix), rtol=1e-4, atol=1e-5)
        assert (slope[prefix:] != 0).any()


@pytest.mark.parametrize("side", ["right", "left"])
def test_of_a_decoder_the_mean_runs_over_real_tokens(ask_text, side):
    question = ask_text(TEXTS, 0, "llama", padding_side=side)
    found, model = GradCam()(question), question.model.model
    for row, text in enumerate(TEXTS):
        alone = ask_text([text], kind="llama").batch
        units = alone.valid[0]  # special tokens are none
        score = lambda out: out.logits[0, -1].max()  # noqa: E731
        state, slope = watch(model, model.model.layers[-1].input_layernorm, "output", alone.inputs, score)
        expected = slow(state[units], slope[units], 0)
        torch.testing.assert_close(found[row][question.batch.valid[row]], expected, rtol=1e-4, atol=1e-5)


def test_a_block_that_begins_with_attention_is_asked_about_what_enters_it(ask_text):
    question = ask_text(TEXTS[:1])
    model = question.model.model
    assert read_by_last_block(question.model, question.batch).side == "input"
    state, slope = watch(model, model.bert.encoder.layer[-1], "input", question.batch.inputs, lambda o: o.logits.max())
    torch.testing.assert_close(GradCam()(question)[0], slow(state, slope, 0), rtol=1e-4, atol=1e-5)


def test_it_says_the_same_at_every_depth(ask_text):
    first = GradCam()(ask_text(depth=0))
    assert all(torch.allclose(GradCam()(ask_text(depth=depth)), first, atol=1e-6) for depth in (1, 2, 3))


def test_of_a_linear_model_it_marks_the_evidence_for_what_was_decided():
    model, task = patch_problem()
    pixels, colours = evidence_images(20, seed=3)
    scores = GradCam()(Question(model, task, task.collate(list(pixels)), 0, None))
    red, blue = (colours == 0).sum(1), (colours == 2).sum(1)
    for row in range(20):
        decided = 0 if red[row] > blue[row] else 2
        assert torch.equal(scores[row] > 1e-4, colours[row] == decided)


def test_the_map_is_what_its_formula_says():
    state, slope = torch.randn(2, 4, 3), torch.randn(2, 4, 3)
    gated = torch.tensor([[False, True, True, True], [True, True, False, False]])
    slope[~gated] = torch.nan  # nobody asks what happens elsewhere
    found = cam(state, slope, gated)
    for row in range(2):
        expected = state[row] @ slope[row][gated[row]].mean(0)
        torch.testing.assert_close(found[row], expected.clamp_min(0))


def test_a_model_without_blocks_is_refused(linear):
    with pytest.raises(ModelError, match=r"Linear has no last block .* method 'grad-cam' reads: use another"):
        GradCam()(linear)


def test_a_model_that_cannot_be_differentiated_is_refused(tower, batch):
    forward = tower.forward
    tower.forward = torch.no_grad()(forward)
    task = TensorTask(dict(batch.inputs), batch.valid, validation_count=1)
    with pytest.raises(ModelError, match="no gradient reaches the last block"):
        GradCam()(Question(adapt(tower), task, batch, 0, None))
