"""Every method scores the patches of an image, and what stands before them never gets a score."""

import pytest
import torch

from diffmask.attribution import METHODS
from diffmask.attribution.attention import Attention
from diffmask.attribution.chefer import Chefer
from diffmask.attribution.grad_cam import GradCam
from diffmask.attribution.leave_one_out import LeaveOneOut
from diffmask.attribution.method import Question
from diffmask.attribution.rollout import Rollout
from diffmask.errors import ModelError
from diffmask.masking.knockout import run_knocked_out
from diffmask.models.adapting import adapt
from diffmask.tasks.images import ImageClassification
from diffmask.types import Batch
from tiny_vision import ARCHITECTURES, LAYERS, PATCH, build, images

VIT = "ViTForImageClassification"
ON_PATCHES = {"BeitForImageClassification", "CLIPForImageClassification"}  # they answer from the mean of the patches
CLASSIFIERS = [name for name in ARCHITECTURES if not name.startswith(("Swin", "CLIPVision"))]
RIVALS = ["gradient", "gradient-input", "integrated-gradients", "leave-one-out"]
RIVALS += ["rollout", "attention", "chefer", "grad-cam"]
OTHERS = ["rise", "kernel-shap", "lime", "greedy", "random", "uniform"]


def ask(name: str = VIT, depth: int = 0, rows: slice = slice(None), dtype: torch.dtype = torch.float32) -> Question:
    pixels = images(name)
    model = adapt(build(name, dtype))
    task = ImageClassification(None, pixels, pixels, patch=PATCH)
    width = 8 if name.startswith("Swin") else 16
    return Question(model, task, task.collate(list(pixels[rows])), depth, torch.zeros(width) + 0.1)


@torch.no_grad()
def attention_of(question: Question) -> torch.Tensor:
    """Ask a second, eager copy of the model: (layer, batch, query, key), averaged over heads."""
    model = question.model.model
    copy = type(model)._from_config(model.config, attn_implementation="eager").eval()
    copy.load_state_dict(model.state_dict())
    return torch.stack(copy(**question.batch.inputs, output_attentions=True).attentions).mean(2)


@pytest.mark.parametrize("method", RIVALS + OTHERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_every_patch_gets_a_finite_score_whoever_is_beside_it(method, dtype):
    call = METHODS.get(method)()
    both, alone = call(ask(dtype=dtype)), call(ask(rows=slice(1, 2), dtype=dtype))
    assert both.shape == (2, 15) and both.isfinite().all() and (both >= 0).all()
    if dtype == torch.float32:
        torch.testing.assert_close(both[1:], alone, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("method", RIVALS)
def test_every_depth_is_scored_and_the_model_is_left_as_it_was(method):
    call = METHODS.get(method)()
    for depth in range(LAYERS + 2):
        question = ask(depth=depth)
        assert call(question).shape == (2, 15)
        model = question.model.model
        assert model.config._attn_implementation == "sdpa" and not any(m._forward_hooks for m in model.modules())


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_attention_is_read_where_the_answer_is(name):
    question, prefix = ask(name), ARCHITECTURES[name][2]
    weights = attention_of(question).mean(0)
    asks = slice(prefix, None) if name in ON_PATCHES or not prefix else slice(0, 1)
    expected = weights[:, asks].mean(1)[:, prefix:]
    torch.testing.assert_close(Attention()(question), expected)


@pytest.mark.parametrize("depth", [0, 2, LAYERS + 1])
@pytest.mark.parametrize("name", [VIT, "DeiTForImageClassification", "IJepaForImageClassification"])
def test_rollout_flows_through_what_stands_before_the_patches(name, depth):
    question, prefix = ask(name, depth), ARCHITECTURES[name][2]
    flow = torch.eye(15 + prefix).expand(2, -1, -1)
    for layer in attention_of(question)[max(0, depth - 1) :]:
        flow = (layer + torch.eye(15 + prefix)) / 2 @ flow
    expected = flow[:, 0, prefix:] if prefix else flow.mean(1)
    torch.testing.assert_close(Rollout()(question), expected)


def test_leaving_a_patch_out_is_running_the_model_without_it():
    question = ask()
    model, pixels = question.model.model, question.batch.inputs["pixel_values"]
    original = model(pixel_values=pixels).logits.log_softmax(-1)
    scores = LeaveOneOut()(question)
    conv = model.vit.embeddings.patch_embeddings.projection
    for unit in (0, 7, 14):
        place = (slice(None), slice(None), unit // 5, unit % 5)
        handle = conv.register_forward_hook(
            lambda module, args, out, place=place: out.index_put(
                (torch.arange(2)[:, None], torch.arange(16), torch.tensor(place[2]), torch.tensor(place[3])),
                torch.tensor(0.1),
            )
        )
        masked = model(pixel_values=pixels).logits.log_softmax(-1)
        handle.remove()
        expected = (original.exp() * (original - masked)).sum(-1)
        torch.testing.assert_close(scores[:, unit], expected.detach(), rtol=1e-3, atol=1e-6)


def test_units_may_be_made_of_several_patches():
    question = ask()
    place = (torch.arange(15) // 5).expand(2, 15)  # a unit is a row of the grid
    rows = Batch(question.batch.inputs, torch.ones(2, 3, dtype=torch.bool), place)
    wide = Question(question.model, question.task, rows, 0, question.baseline)
    for method in (Attention(), Rollout(), Chefer(), GradCam()):
        torch.testing.assert_close(method(wide), method(question).view(2, 3, 5).sum(-1))
    assert LeaveOneOut()(wide).shape == (2, 3)


def test_windows_of_attention_are_refused():
    question = ask("SwinForImageClassification")
    for method in (Attention(), Rollout(), Chefer()):
        with pytest.raises(ModelError, match="SwinForImageClassification gives no attention probabilities"):
            method(question)
    with pytest.raises(ModelError, match=r"Swin.* has no last block that holds one state per position"):
        GradCam()(question)
    assert LeaveOneOut()(question).shape == (2, 16)


def test_a_model_without_a_mask_of_attention_is_not_knocked_out():
    question = ask()
    with pytest.raises(ModelError, match=r"knockout needs a model that takes an attention_mask.*pixel_values"):
        run_knocked_out(question.model, question.batch, question.batch.valid)
