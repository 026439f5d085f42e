"""Positions stretched once are those a model would stretch at every call, whatever holds its size."""

import pytest
import torch
import transformers
from torch import nn

from diffmask.errors import ModelError
from diffmask.studies.stretch import stretched
from tiny_vision import SQUARE, SWIN, build

PIXELS = torch.randn(2, 3, 24, 24, generator=torch.Generator().manual_seed(0))
ASKED = ["ViT", "DeiT", "ViTMSN", "IJepa", "Siglip", "CLIP"]  # they stretch their positions when they are asked to
ALWAYS = ["Dinov2", "Dinov2WithRegisters"]
ABSOLUTE = {**SQUARE, "use_absolute_position_embeddings": True}


def tiny(family, **changes):
    own = {"image_size": 16} if family not in ("Siglip", "CLIP") else {}
    return build(f"{family}ForImageClassification", **own, **changes)


@torch.no_grad()
def answer(model, **more):
    return model(pixel_values=PIXELS, **more).logits


@pytest.mark.parametrize("family", ASKED + ALWAYS)
def test_a_stretched_model_answers_as_one_that_stretches_at_every_call(family, tmp_path):
    model = tiny(family)
    found = stretched(model, 24)
    expected = answer(model, **({"interpolate_pos_encoding": True} if family in ASKED else {}))
    torch.testing.assert_close(answer(found), expected, rtol=1e-4, atol=1e-5)
    found.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path).eval()
    assert torch.equal(answer(again), answer(found)) and not found.training


@pytest.mark.parametrize("family", ["ViT", "Siglip", "Beit", "Swin"])
def test_a_model_of_that_size_is_left_alone(family):
    model = tiny(family)
    assert stretched(model, 16) is model


def test_absolute_positions_of_beit_are_stretched_and_relative_ones_left_to_the_model():
    plain = build("BeitForImageClassification", **{**ABSOLUTE, "use_relative_position_bias": False})
    found = stretched(plain, 24)
    assert found.beit.embeddings.position_embeddings.shape[1] == 1 + 36
    torch.testing.assert_close(answer(found), answer(plain), rtol=1e-4, atol=1e-5)
    both = build("BeitForImageClassification", **ABSOLUTE, use_relative_position_bias=True)
    assert stretched(both, 24) is both


def test_a_model_without_learned_positions_or_a_size_needs_no_stretch():
    swin = transformers.SwinForImageClassification(transformers.SwinConfig(**SWIN, num_labels=3)).eval()
    assert stretched(swin, 24) is swin
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "num_labels": 3}
    resnet = transformers.ResNetForImageClassification(transformers.ResNetConfig(**sizes)).eval()
    assert stretched(resnet, 24) is resnet


def test_the_tower_of_a_pair_is_told_its_size():
    assert stretched(tiny("CLIP"), 24).config.vision_config.image_size == 24


def test_drawing_the_twin_leaves_the_global_generator_alone():
    model = tiny("ViT")
    before = torch.get_rng_state()
    stretched(model, 24)
    assert torch.equal(torch.get_rng_state(), before)


class Stiff(transformers.ViTForImageClassification):
    """A ViT that cannot stretch."""

    def __init__(self, config):
        super().__init__(config)
        self.vit.embeddings = Fixed(self.vit.embeddings)


class Fixed(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.position_embeddings, self.patch_embeddings = inner.position_embeddings, inner.patch_embeddings

    def forward(self, pixel_values, **_):
        return self.patch_embeddings(pixel_values) + self.position_embeddings[:, 1:]


def test_a_model_that_can_do_neither_is_refused():
    config = transformers.ViTConfig(**SQUARE, num_labels=3)
    match = "Stiff takes images of 16 pixels and cannot stretch its positions to 24: use a ViT or DINOv2"
    with pytest.raises(ModelError, match=match):
        stretched(Stiff(config).eval(), 24)
    with pytest.raises(ModelError, match="takes images of 12×20 pixels and cannot stretch"):
        stretched(build("ViTForImageClassification"), 24)
