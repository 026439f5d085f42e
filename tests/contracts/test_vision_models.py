"""The exam every vision model sits: patches found by structure, one state for each, and what is no patch left alone."""

from dataclasses import replace as changed

import pytest
import torch
from torch import nn

from diffmask.masking.mask import run_masked
from diffmask.models.adapter import Adapter
from diffmask.models.adapting import adapt
from diffmask.models.sites import capture, replace, resume, trace
from diffmask.types import Batch
from tiny_vision import ARCHITECTURES, LAYERS, PATCH, build, images

SWIN = "SwinForImageClassification"
BLOCKED = [name for name in ARCHITECTURES if name != SWIN]
# These answer from [CLS] alone, so what the patches hold after the last block is read by nobody.
FROM_CLS = {
    "ViTForImageClassification",
    "DeiTForImageClassification",
    "ViTMSNForImageClassification",
    "CLIPVisionModelWithProjection",
}


def make_batch(name: str) -> Batch:
    height, width = ARCHITECTURES[name][1]
    patches = (height // PATCH) * (width // PATCH)
    return Batch({"pixel_values": images(name)}, torch.ones(2, patches, dtype=torch.bool))


def answer(adapter: Adapter, batch: Batch) -> torch.Tensor:
    with torch.no_grad():
        return adapter(batch)[0]


@pytest.fixture(params=list(ARCHITECTURES))
def name(request):
    return request.param


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def dtype(request):
    return request.param


@pytest.fixture
def examined(name, dtype):
    return adapt(build(name, dtype)), make_batch(name)


def test_sites_are_the_patches_what_enters_the_first_block_and_every_block_in_forward_order(name):
    adapter, batch = adapt(build(name)), make_batch(name)
    assert isinstance(adapter.sites[0].module, nn.Conv2d) and adapter.patch == (PATCH, PATCH)
    assert len(adapter.sites) == (1 if name == SWIN else LAYERS + 2)
    assert trace(adapter.sites, lambda: answer(adapter, batch)) == list(adapter.sites)
    assert [site.side for site in adapter.sites[1:2]] == ["input"] * (name != SWIN)
    assert all(site.prefix == ARCHITECTURES[name][2] for site in adapter.sites[1:])


def test_an_example_or_names_give_the_same_sites(name):
    model = build(name)
    usual = adapt(model).sites
    for other in (adapt(model, example=make_batch(name)).sites, adapt(model, sites=usual.names).sites):
        assert [(s.name, s.layout, s.prefix) for s in other] == [(s.name, s.layout, s.prefix) for s in usual]


def test_every_state_has_one_row_per_patch_and_replacing_it_by_itself_changes_nothing(examined):
    adapter, batch = examined
    with capture(adapter.sites) as states:
        original = answer(adapter, batch)
    for site in adapter.sites:
        assert states[site.name].shape[:2] == batch.valid.shape
        with replace(site, states[site.name]):
            assert torch.equal(answer(adapter, batch), original)
        with resume(site, states[site.name], states):
            assert torch.equal(answer(adapter, batch), original)


def test_another_state_changes_the_answer_if_anybody_reads_it_the_same_way_resumed_or_not(examined, name):
    adapter, batch = examined
    with capture(adapter.sites) as states:
        original = answer(adapter, batch)
    for site in adapter.sites:
        # Not by a constant, which a layer norm takes out again.
        other = states[site.name] * torch.linspace(-2, 2, states[site.name].shape[-1]).to(states[site.name])
        with replace(site, other):
            replaced = answer(adapter, batch)
        with resume(site, other, states):
            resumed = answer(adapter, batch)
        unread = name in FROM_CLS and site is adapter.sites[-1]
        assert torch.equal(replaced, original) == unread, site.name
        torch.testing.assert_close(resumed, replaced, rtol=1e-3, atol=1e-4)


def test_nothing_is_left_behind(examined):
    adapter, batch = examined
    with capture(adapter.sites) as states:
        answer(adapter, batch)
    with pytest.raises(RuntimeError, match="stop"), resume(adapter.sites[-1], states[adapter.sites.names[-1]], states):
        raise RuntimeError("stop")
    for module in adapter.model.modules():
        assert not module._forward_hooks and not module._forward_pre_hooks and "forward" not in vars(module)


def test_a_gradient_reaches_every_state_that_is_read(examined, name):
    adapter, batch = examined
    with adapter.frozen():
        with torch.no_grad(), capture(adapter.sites) as states:
            adapter(batch)
        for site in adapter.sites:
            state = states[site.name].clone().requires_grad_(True)
            with resume(site, state, states):
                output = adapter(batch)[0]
            output.float().pow(2).sum().backward()
            unread = name in FROM_CLS and site is adapter.sites[-1]
            assert state.grad.isfinite().all() and bool((state.grad != 0).any()) != unread, site.name


@pytest.mark.parametrize("name", BLOCKED)
def test_masking_every_patch_before_position_leaves_the_prefix_alone_and_positions_apart(name, dtype):
    adapter, batch = adapt(build(name, dtype)), make_batch(name)
    with torch.no_grad():  # a fresh model's positions may all be zero, and a trained one's are not
        for part, parameter in adapter.model.named_parameters():
            if "position_embedding" in part:
                parameter.normal_()
    first, entry = adapter.sites[0], adapter.sites[1]
    whole = changed(entry, prefix=0)
    with torch.no_grad(), capture([first, whole]) as states:
        adapter(batch)
    nothing, baseline = torch.zeros(batch.valid.shape), torch.ones(states[first.name].shape[-1])
    with torch.no_grad(), capture([whole]) as masked:
        run_masked(adapter, batch, states, first.name, nothing, baseline)
    before, after = states[whole.name], masked[whole.name]
    assert torch.equal(before[:, : entry.prefix], after[:, : entry.prefix])
    assert torch.equal(after[0], after[1])  # nothing of the images is left
    assert (before[:, entry.prefix :] != after[:, entry.prefix :]).any(-1).all()
    alike = (after[0, entry.prefix :] == after[0, entry.prefix]).all()
    assert alike == (name == "BeitForImageClassification")  # its positions come in later, as a bias of attention


@pytest.mark.parametrize("name", BLOCKED)
def test_a_patch_of_pixels_is_the_unit_of_its_row_and_column(name):
    adapter, batch = adapt(build(name)), make_batch(name)
    with capture(adapter.sites[:2]) as states:
        answer(adapter, batch)
    columns = ARCHITECTURES[name][1][1] // PATCH
    pixels = batch.inputs["pixel_values"].clone()
    pixels[:, :, PATCH : 2 * PATCH, 2 * PATCH : 3 * PATCH] += 1  # row 1, column 2
    with capture(adapter.sites[:2]) as moved:
        answer(adapter, Batch({"pixel_values": pixels}, batch.valid))
    for site in adapter.sites[:2]:
        rows = (states[site.name] != moved[site.name]).any(-1).any(0).nonzero().flatten().tolist()
        assert rows == [columns + 2], site.name


@pytest.mark.parametrize("name", BLOCKED)
def test_an_image_of_another_size_has_another_grid(name):
    square = {"image_size": 16} if "image_size" in ARCHITECTURES[name][0] else {}  # only such positions are stretched
    adapter = adapt(build(name, **square))
    extra = {} if name.startswith("Dinov2") else {"interpolate_pos_encoding": True}
    pixels = torch.randn(2, 3, 20, 8, generator=torch.Generator().manual_seed(0))
    batch = Batch({"pixel_values": pixels, **extra}, torch.ones(2, 10, dtype=torch.bool))
    with capture(adapter.sites) as states:
        original = answer(adapter, batch)
    for site in adapter.sites:
        assert states[site.name].shape[1] == 10
        with resume(site, states[site.name], states):
            assert torch.equal(answer(adapter, batch), original)
