"""Which models have patches, where these stand in their states, and which are refused, with the reason."""

import numpy as np
import pytest
import torch
import transformers
from torch import nn

from diffmask.errors import ModelError, SiteError
from diffmask.models.adapting import adapt
from diffmask.models.sites import Site, capture, replace
from diffmask.tasks.images import PlainProcessor
from diffmask.types import Batch
from patch_toy import PatchEvidence
from tiny_text import make_model, make_tokenizer
from tiny_vision import build, images

VIT = "ViTForImageClassification"


class Trailing(nn.Module):
    """Puts a token of its own after the patches, where no prefix is."""

    def __init__(self) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, 4, 4, 4)
        self.blocks = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

    def forward(self, pixel_values):
        state = self.cut(pixel_values).flatten(2).transpose(1, 2)
        state = torch.cat([state, torch.ones_like(state[:, :1])], 1)
        for block in self.blocks:
            state = block(state)
        return state[:, -1]


def one_image(*size: int, channels: int = 3) -> Batch:
    return Batch({"pixel_values": torch.rand(1, channels, *size)}, torch.ones(1, 1, dtype=torch.bool))


def test_a_state_of_a_grid_is_read_row_by_row_and_put_back():
    site, tensor = Site("conv", nn.Identity(), layout="grid"), torch.arange(12.0).view(1, 2, 2, 3)
    state = site.state_of(tensor)
    assert state[0].tolist() == [[0, 6], [1, 7], [2, 8], [3, 9], [4, 10], [5, 11]]
    assert torch.equal(site.with_state(tensor, 2 * state), 2 * tensor)


def test_a_prefix_is_no_part_of_a_state_and_stays():
    site, tensor = Site("block", nn.Identity(), prefix=1), torch.arange(6.0).view(1, 3, 2)
    assert site.state_of(tensor).tolist() == [[[2, 3], [4, 5]]]
    assert site.with_state(tensor, torch.zeros(1, 2, 2)).tolist() == [[[0, 1], [0, 0], [0, 0]]]


def test_a_changed_capture_is_safe_from_a_model_that_goes_on_in_place():
    block = nn.Sequential(nn.Identity(), nn.ReLU(inplace=True))
    with capture([Site("first", block[0], prefix=1)]) as states:
        block(-torch.ones(1, 3, 2))
    assert (states["first"] == -1).all() and (states.outputs["first"] == -1).all()


def test_a_model_nobody_has_heard_of_needs_an_example():
    model = PatchEvidence()
    with pytest.raises(
        SiteError, match=r"does not say how large its images are: give one, adapt\(model, example=batch"
    ):
        adapt(model)
    adapter = adapt(model, example=one_image(8, 12))
    assert [(s.name, s.layout, s.prefix) for s in adapter.sites] == [
        ("cut", "grid", 0),
        ("blocks.0:input", "line", 1),
        ("blocks.0", "line", 1),
        ("blocks.1", "line", 1),
    ]


def test_a_network_of_overlapping_convolutions_is_refused():
    config = transformers.ResNetConfig(embedding_size=4, hidden_sizes=[4, 4], depths=[1, 1])
    with pytest.raises(SiteError, match=r"ResNetFor.* no vision transformer.* sees 7×7 pixels every 2×2.* overlap"):
        adapt(transformers.ResNetForImageClassification(config))
    with pytest.raises(SiteError, match="Sequential is no vision transformer"):
        adapt(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3)))


def test_a_convolutional_network_with_patches_is_refused_for_its_maps():
    config = transformers.ConvNextConfig(hidden_sizes=[4, 4, 4, 4], depths=[1, 1, 1, 1], image_size=32)
    with pytest.raises(SiteError, match=r"ConvNextFor.* its blocks hold maps \(a state of shape \(1, 4, 8, 8\)\)"):
        adapt(transformers.ConvNextForImageClassification(config))


def test_patches_without_blocks_are_refused():
    with pytest.raises(SiteError, match=r"has patches but no nn.ModuleList of equal blocks"):
        adapt(nn.Sequential(nn.Conv2d(3, 4, 4, 4), nn.ReLU()))


def test_a_map_may_be_named_by_hand_and_its_places_are_units():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten())
    adapter = adapt(model, sites=[Site("map", model[1], layout="grid")])
    x = torch.randn(2, 3, 5, 6)
    with capture(adapter.sites) as states:
        original = model(x)
    assert states["map"].shape == (2, 3 * 4, 4)
    with replace(adapter.sites["map"], states["map"]):
        assert torch.equal(model(x), original)


def test_tokens_that_do_not_stand_before_the_patches_are_refused():
    with pytest.raises(SiteError, match=r"1 positions more than there are patches.*\[0\].*Site\(\.\.\., prefix=1\)"):
        adapt(Trailing(), example=one_image(8, 8))


def test_a_site_that_merges_patches_is_refused_by_name():
    model = build("SwinForImageClassification")
    with pytest.raises(SiteError, match=r"'swin.encoder.layers.0' holds .* no row for each of the 4×4 patches"):
        adapt(model, sites=["swin.embeddings.patch_embeddings.projection", "swin.encoder.layers.0"])


def test_a_processor_that_fits_is_accepted():
    model = build(VIT)
    assert adapt(model, PlainProcessor((12, 20))).sites.names == adapt(model).sites.names
    own = transformers.ViTImageProcessorPil(size={"height": 12, "width": 20})
    assert adapt(model, own).sites.names == adapt(model).sites.names


def test_a_processor_of_another_size_is_refused_and_a_model_that_stretches_is_told():
    with pytest.raises(ModelError, match=r"makes images of 16×16 pixels and 3 channels, and ViTFor.*interpolate=True"):
        adapt(build(VIT), PlainProcessor((16, 16)))
    adapt(build("Dinov2ForImageClassification"), PlainProcessor((12, 20)))  # it stretches its positions anyway


def test_a_processor_of_another_size_is_accepted_when_the_model_may_stretch():
    model = build(VIT, image_size=16)
    stretched = adapt(model, PlainProcessor((8, 12)), interpolate=True)
    assert [(s.name, s.prefix) for s in stretched.sites] == [(s.name, s.prefix) for s in adapt(model).sites]
    with pytest.raises(ModelError, match=r"CLIPFor.* refuses them .*\[task\] interpolate = true.*Python with adapt"):
        adapt(build("CLIPForImageClassification"), PlainProcessor((8, 12)))
    adapt(build("CLIPForImageClassification"), PlainProcessor((8, 12)), interpolate=True)


def test_a_model_that_cannot_stretch_its_positions_is_not_told_to():
    with pytest.raises(ModelError, match=r"ViTFor.* refuses them \(.*\): load the model's own processor$"):
        adapt(build(VIT), PlainProcessor((16, 16)), interpolate=True)  # of 3 × 5 patches: no square to stretch


def test_a_processor_that_lists_arrays_is_adapted_to():
    def listing(images, return_tensors):
        return {"pixel_values": [np.zeros((3, 12, 20)) for _ in images]}

    assert adapt(build(VIT), listing).patch == (4, 4)


def test_a_convolutional_network_is_refused_for_its_maps_before_its_processor():
    config = transformers.ConvNextConfig(hidden_sizes=[4, 4, 4, 4], depths=[1, 1, 1, 1], image_size=32)
    with pytest.raises(SiteError, match="its blocks hold maps"):
        adapt(transformers.ConvNextForImageClassification(config), PlainProcessor((16, 16)))


@pytest.mark.parametrize(("size", "said"), [((3, 32, 32), "interpolate=True"), ((1, 16, 16), "of 3 channels")])
def test_images_that_are_not_the_models_are_named_when_it_fails_on_them(size, said):
    adapter, (channels, *sides) = adapt(build(VIT, image_size=16)), size
    wrong = rf"cannot take {sides[0]}×{sides[1]} and {channels} \("
    with pytest.raises(ModelError, match=rf"takes images of 16×16 pixels and 3 channels, and {wrong}.*{said}"):
        adapter(one_image(*sides, channels=channels))


def test_an_error_of_a_model_on_its_own_images_stays_what_it_is():
    adapter = adapt(build(VIT, image_size=16))
    adapter.model.classifier = nn.Linear(3, 3)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        adapter(one_image(16, 16))


def test_a_processor_whose_images_cannot_be_cut_into_patches_is_refused():
    with pytest.raises(ModelError, match=r"15×20 pixels.*cannot cut into patches of 4×4"):
        adapt(build("Dinov2ForImageClassification"), PlainProcessor((15, 20)))


def test_a_processor_of_other_channels_is_refused():
    with pytest.raises(ModelError, match=r"12×20 pixels and 1 channels, and ViTFor.* takes 3 channels"):
        adapt(build(VIT), PlainProcessor((12, 20), (0.5,), (0.5,)))


def test_a_tokenizer_is_no_image_processor():
    with pytest.raises(ModelError, match=r"reads images of 3 channels, and .* makes none of them .*image processor"):
        adapt(build(VIT), make_tokenizer())


def test_text_models_have_no_patches():
    assert adapt(make_model("bert")).patch is None


def test_pixels_are_cast_to_what_the_model_computes_in():
    model = build("BeitForImageClassification", torch.bfloat16)
    batch = Batch({"pixel_values": images("BeitForImageClassification")}, torch.ones(2, 15, dtype=torch.bool))
    assert adapt(model)(batch).logits.dtype == torch.bfloat16
