"""The ImageNet study: an encoder gets a head, a classifier keeps its own, and both are drawn."""

import json

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from torch import nn

from diffmask.errors import DataError, DiffMaskError, ModelError
from diffmask.report import PICTURES, TABLES
from diffmask.studies import imagenet
from diffmask.studies.cifar10_curves import KEEP_SET, RANKING
from diffmask.studies.cifar10_model import adapt_to
from diffmask.studies.imagenet import COMPARED, Shape
from diffmask.studies.imagenet_model import load_classifier, normalisation, train_head
from diffmask.studies.setup import Setup
from diffmask.tasks.stored_images import StoredImages

SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "mlp_ratio": 2,
    "patch_size": 14,
    "image_size": 56,
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Lay out a tiny encoder, a tiny classifier with its processor's settings, and three pictures."""
    root, draw = tmp_path_factory.mktemp("imagenet"), np.random.default_rng(0)
    torch.manual_seed(0)
    config = transformers.Dinov2Config(**SIZES)
    transformers.Dinov2Model(config).save_pretrained(root / "encoder")
    config.id2label = {0: "yes", 1: "no"}  # fewer labels than pictures
    transformers.Dinov2ForImageClassification(config).save_pretrained(root / "classifier")
    said = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.25, 0.25, 0.25]}
    (root / "classifier" / "preprocessor_config.json").write_text(json.dumps(said))
    (root / "pictures").mkdir()
    for number, name in enumerate(("n1_cat", "n2_big_dog", "n3_cup")):
        pixels = draw.integers(0, 100, (240, 260, 3), dtype=np.uint8)
        pixels[..., number] += 155
        Image.fromarray(pixels).save(root / "pictures" / f"{name}.png")
    return root


def run(root, model, monkeypatch):
    monkeypatch.setattr(imagenet, "FEW", Shape(56, 3, 2, imagenet.FEW.size))
    setup = Setup(1, root / f"{model}.json", small=True, data=root / "pictures", encoder=root / model)
    *_, result = imagenet.run(setup)
    return result


def test_an_encoder_gets_a_head_and_is_explained_by_every_method(root, monkeypatch):
    result = run(root, "encoder", monkeypatch)
    assert result["shown"]["labels"] == ["cat", "big dog"] and result["shown"]["grid"] == [4, 4]
    assert set(result["shown"]["scores"]) == set(COMPARED) == set(result["summary"]["methods"])
    assert {KEEP_SET, RANKING, "rollout", "chefer"} <= set(COMPARED)
    assert "trained by this study" in result["summary"]["head"] and 0 <= result["summary"]["head_accuracy"] <= 1
    assert set(PICTURES.get("imagenet")(result)) == {"heat-maps", "depths"}
    assert "which of the 3 pictures" in TABLES.get("imagenet")(result)


def test_a_classifier_keeps_its_head_and_says_its_own_labels(root, monkeypatch):
    result = run(root, "classifier", monkeypatch)
    assert result["summary"]["head"] == "the model's own" and result["summary"]["head_accuracy"] is None
    assert set(result["shown"]["decided"]) <= {"yes", "no"} and result["shown"]["labels"] == ["cat", "big dog"]


def test_only_the_head_is_trained_and_it_learns(root):
    model, own = load_classifier(root / "encoder", 2, 56)
    images = torch.full((8, 3, 56, 56), 30, dtype=torch.uint8)
    images[::2, 0] = 220
    labels = torch.arange(8) % 2
    before = [p.clone() for p in model.base_model.parameters()]
    train_head(model, StoredImages(images, range(6), range(6, 8), size=56, patch=14), labels)
    assert not own and all(torch.equal(a, b) for a, b in zip(before, model.base_model.parameters(), strict=True))
    task = StoredImages(images, range(6), range(6, 8), size=56, patch=14)
    found = model(pixel_values=task.prepare(images)).logits.argmax(1)
    assert torch.equal(found, labels)


def test_a_model_whose_head_is_not_linear_is_refused(root):
    model, _ = load_classifier(root / "encoder", 2, 56)
    model.classifier = nn.Sequential(model.classifier)
    task = StoredImages(torch.zeros(2, 3, 56, 56, dtype=torch.uint8), range(1), range(1, 2), size=56, patch=14)
    with pytest.raises(ModelError, match="no linear 'classifier' to train"):
        train_head(model, task, torch.arange(2))


def test_blocks_are_counted_from_the_last(root):
    model, _ = load_classifier(root / "encoder", 2, 56)
    assert [name.split(".")[-1] for name in adapt_to(model, 3).sites.names] == ["projection", "0:input", "0", "3"]


def test_channels_are_scaled_as_the_model_was_trained(root):
    assert normalisation(root / "classifier") == ([0.5] * 3, [0.25] * 3)
    assert normalisation(root / "encoder")[0] == (0.485, 0.456, 0.406)


def test_a_missing_folder_or_model_is_said(tmp_path):
    with pytest.raises(DataError, match="name them with --data and --encoder"):
        next(imagenet.run(Setup(1, tmp_path / "x.json", small=True)))


def refused(root, folder, monkeypatch):
    """Run the study, whose fits must not begin, and return the sentence it ends with."""
    monkeypatch.setattr(imagenet, "fit", lambda *_: pytest.fail("something was fitted"))
    with pytest.raises(DiffMaskError) as error:
        list(imagenet.run(Setup(1, root / "x.json", small=True, data=root / "pictures", encoder=root / folder)))
    return str(error.value)


def test_a_model_that_is_not_there_or_none_is_said_in_a_sentence(root, monkeypatch):
    assert "nosuch: give the directory of a model" in refused(root, "nosuch", monkeypatch)
    assert "pictures is no vision transformer of transformers (" in refused(root, "pictures", monkeypatch)


def test_networks_that_hold_no_patches_or_merge_them_are_refused_before_anything_is_fitted(root, monkeypatch):
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "num_labels": 3}
    transformers.ResNetForImageClassification(transformers.ResNetConfig(**sizes)).save_pretrained(root / "resnet")
    assert "ResNetForImageClassification is no vision transformer" in refused(root, "resnet", monkeypatch)
    sizes = {"embed_dim": 8, "depths": [1, 1], "num_heads": [2, 2], "window_size": 7, "patch_size": 4, "num_labels": 3}
    swin = transformers.SwinForImageClassification(transformers.SwinConfig(**sizes, image_size=224))
    swin.save_pretrained(root / "swin")
    assert "SwinForImageClassification merges its patches" in refused(root, "swin", monkeypatch)


@pytest.mark.parametrize("kind", ["ViT", "Siglip"])
def test_classifiers_of_other_families_are_explained_too(root, monkeypatch, kind):
    name, sizes = f"{kind}ForImageClassification", {**SIZES, "intermediate_size": 24}
    config = getattr(transformers, name).config_class(**({"vision_config": sizes} if kind == "Siglip" else sizes))
    getattr(transformers, name)(config).save_pretrained(root / kind)
    monkeypatch.setattr(imagenet, "FEW", Shape(28, 3, 2, imagenet.FEW.size))
    setup = Setup(1, root / f"{kind}.json", small=True, data=root / "pictures", encoder=root / kind)
    assert list(imagenet.run(setup))[-1]["shown"]["grid"] == [2, 2]
