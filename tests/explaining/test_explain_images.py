"""From images to verified explanations, patch by patch."""

from dataclasses import replace

import pytest
import torch
from PIL import Image
from torch import nn
from transformers import CLIPImageProcessorPil

from diffmask.errors import SettingError
from diffmask.explaining.explain import explain
from diffmask.explanation import Explanation, to_pixels
from diffmask.models.adapting import adapt
from diffmask.models.sites import Site
from diffmask.tasks.images import ImageClassification, PlainProcessor
from diffmask.training.config import FitConfig, recipe
from diffmask.training.fit import fit
from diffmask.types import Categorical
from patch_toy import COLUMNS, ROWS, SIDE, evidence_images, patch_problem
from tiny_vision import ARCHITECTURES, build, images
from toys import small_recipe


def short(kind: str, **changes: object) -> FitConfig:
    """A recipe of a few steps, which finds nothing yet."""
    config = recipe(kind=kind, steps=4, batch_size=4, **changes)
    return replace(config, probe=replace(config.probe, baseline=replace(config.probe.baseline, ablation_steps=2)))


@pytest.mark.parametrize(("kind", "site"), [("input", "cut"), ("hidden", "blocks.0:input")])
def test_patches_without_evidence_are_dropped_and_what_is_kept_is_enough(kind, site):
    model, task = patch_problem(sites=[site])
    fitted = fit(model, task, small_recipe(kind=kind, margin=0.05, steps=80, batch_size=16, learning_rate=0.02))
    pixels, colours = evidence_images(40, seed=1)
    explained = explain(fitted, list(pixels))
    assert sum(one.verified for one in explained) >= 36
    kept = torch.stack([one.kept for one in explained]).float()
    assert kept[colours == 1].mean() < 0.05 and kept[colours != 1].mean() > 0.9
    assert all(one.info["grid"] == [ROWS, COLUMNS] for one in explained)


@pytest.mark.parametrize("kind", ["input", "hidden"])
@pytest.mark.parametrize("name", ["ViTForImageClassification", "SwinForImageClassification"])
def test_a_vision_transformer_is_fitted_explained_and_verified(name, kind):
    height, width = ARCHITECTURES[name][1]
    model = adapt(build(name), PlainProcessor((height, width)))
    bytes_ = (images(name, 24).sigmoid() * 255).to(torch.uint8)
    task = ImageClassification(
        PlainProcessor((height, width)), bytes_[:16], bytes_[16:], patch=model.patch, labels="abc"
    )
    (one,) = explain(fit(model, task, short(kind, margin=1e-3)), [bytes_[0]], depth=0)
    rows, columns = task.grid
    assert len(one.units) == rows * columns and one.units[columns] == "1,0"
    assert one.scores.shape == (len(model.sites), rows * columns) and one.verification is not None
    assert one.info["labels"] == ["a", "b", "c"]
    assert not any(module._forward_hooks for module in model.model.modules())


def test_patches_are_drawn_over_the_part_of_a_picture_that_the_processor_left(tmp_path):
    processor = CLIPImageProcessorPil(size={"shortest_edge": 20}, crop_size={"height": 12, "width": 20})
    picture = Image.new("RGB", (200, 50), "white")
    picture.paste((255, 0, 0), (0, 0, 60, 50))  # on the left, where the model sees nothing
    model = adapt(build("ViTForImageClassification"), processor)
    task = ImageClassification(processor, [picture] * 4, [picture], patch=model.patch)
    (one,) = explain(fit(model, task, short("input")), [picture])
    one.save(tmp_path / "one.safetensors")
    shown = Explanation.load(tmp_path / "one.safetensors").plot(picture).axes[2].images[0].get_array()
    assert shown.shape == (30, 50, 3) and (shown == 1).all()


def test_patches_of_another_shape_than_the_models_are_refused_before_a_fit_and_before_an_explanation():
    model = adapt(build("SiglipForImageClassification"))  # 16 × 16 pixels, of patches of 4 × 4
    pixels = images("SiglipForImageClassification", 8)
    wrong, right = (ImageClassification(None, pixels, pixels, patch=patch) for patch in ((2, 8), model.patch))
    assert len(wrong.units([0])[0]) == len(right.units([0])[0])  # only their names would be wrong
    said = r"the task cuts images into patches of 2×8 pixels, and SiglipForImageClassification into 4×4: .*\.patch"
    with pytest.raises(SettingError, match=said):
        fit(model, wrong, short("input"))
    with pytest.raises(SettingError, match=said):
        explain(replace(fit(model, right, short("input")), task=wrong), list(pixels))


class Maps(nn.Module):
    """Cuts an image into patches of 2 × 2 pixels, and those into larger ones."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.then = (nn.Conv2d(channels, 4, 2, stride=2) for channels in (3, 4))

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        return self.then(self.first(pixel_values)).flatten(1)


def test_a_map_that_was_named_by_hand_has_patches_of_its_own():
    torch.manual_seed(0)
    net, pixels = Maps(), list(torch.randn(8, 3, 8, 8))
    model = adapt(net, sites=[Site("map", net.then, layout="grid")])
    task = ImageClassification(None, pixels, pixels, patch=4, output=lambda out: {"label": Categorical(out)})
    (one,) = explain(fit(model, task, short("input")), pixels[:1])
    assert model.patch == (2, 2) and one.info["grid"] == [2, 2]


def test_an_explanation_keeps_its_grid_on_disk_and_shows_on_pixels(tmp_path):
    model, task = patch_problem(100)
    (one,) = explain(fit(model, task, short("input")), [task.train[0]])
    one.save(tmp_path / "one.safetensors")
    loaded = Explanation.load(tmp_path / "one.safetensors")
    shown = to_pixels(loaded.scores, tuple(loaded.info["grid"]), task.size)
    assert shown.shape == (len(one.depths), ROWS * SIDE, COLUMNS * SIDE)
    assert torch.equal(shown[:, ::SIDE, ::SIDE].flatten(1), one.scores)
