"""The CIFAR-10 study: its parts where the answer is known, and a run from end to end on a tiny random model."""

import json
from dataclasses import replace
from statistics import stdev

import numpy as np
import pytest
import torch
import transformers
from torch import nn

from diffmask.attribution.method import Question
from diffmask.errors import ModelError
from diffmask.evaluation.bootstrap import mean_interval
from diffmask.models.adapter import Adapter
from diffmask.models.sites import Site
from diffmask.report import PICTURES, TABLES
from diffmask.settings import change
from diffmask.studies import cifar10, cifar10_time
from diffmask.studies.cifar10_curves import (
    CHEFER_READ,
    DISCARDING,
    FIGURES,
    KEEP_SET,
    RANKING,
    REFINED,
    REPLACEMENTS,
    Curves,
    keeps_of,
)
from diffmask.studies.cifar10_fits import FULL, SMALL, fit_ranking
from diffmask.studies.cifar10_model import load_cifar10, make_classifier, shifted, train_cifar10
from diffmask.studies.cifar10_published import TABLE_1
from diffmask.studies.cifar10_sources import find_sources, patch_of
from diffmask.studies.cifar10_summary import COLUMNS, PUBLISHED, first, interval, spread_of, summarise_kept, times_of
from diffmask.studies.cifar10_time import Timing
from diffmask.studies.setup import Setup
from diffmask.tasks.cifar10 import pack_images
from diffmask.tasks.patch_counting import PatchCounting
from diffmask.tasks.stored_images import StoredImages
from diffmask.types import Batch

SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "mlp_ratio": 2,
    "patch_size": 14,
    "image_size": 56,
}
TINY = replace(
    SMALL,
    pixels=28,
    train=12,
    validation=6,
    test=4,
    batch=3,
    every=1,
    tune=change(SMALL.tune, {"batch_size": 6}),
    keep_set=change(SMALL.keep_set, {"hidden": 8}),
)


@pytest.fixture(scope="module")
def setup(tmp_path_factory):
    """Lay out a tiny encoder and random images."""
    root = tmp_path_factory.mktemp("cifar10")
    save_encoder(root / "encoder")
    save_images(root / "data")
    return Setup(1, root / "cifar10.json", small=True, data=root / "data", encoder=root / "encoder")


def save_encoder(directory, seed=0, **changes):
    torch.manual_seed(seed)
    transformers.Dinov2Model(transformers.Dinov2Config(**{**SIZES, **changes})).save_pretrained(directory)
    return directory


def save_images(directory, seed=0):
    draw = np.random.default_rng(seed)
    for part, count in (("train", 20), ("test", 8)):
        images = draw.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
        pack_images(directory / f"{part}-0.xz", images, draw.integers(0, 10, count, dtype=np.uint8))
    return directory


def test_the_study_runs_goes_on_and_is_reported(setup, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cifar10, "SMALL", TINY)
    count, *lines, result = cifar10.run(setup)
    assert count == 1 and len(lines) == 1 and "accuracy" in lines[0]
    summary = json.loads(setup.output.read_text())["summary"]
    assert {"accuracy", "images", "seeds", "fit_seconds", *COLUMNS, "published_protocol"} <= set(summary)
    assert summary["images"] == 4 and summary["seeds"] == 1
    assert all(0 <= low <= mean <= high <= 1 for mean, low, high in summary["kept"]["share"].values())
    for column in COLUMNS:
        assert all(low <= mean <= high for mean, low, high in summary[column].values())
    turned, plain = (summary["difference"][name][0] for name in (f"{RANKING}, reversed", RANKING))
    assert turned == pytest.approx(-plain, abs=1e-6)
    assert summary["published_protocol"]["chefer"]["published"]["most_first_nll"] == TABLE_1["chefer"][0]
    assert len(result["rows"]) == 20 * (len(REPLACEMENTS) + 1) * len(FIGURES)
    shown = TABLES.get("cifar10")(result).splitlines()
    assert len(shown) == (2 + 20 + 2) + 1 + (2 + 8) and shown[-1].startswith(
        "| **DiffMask, ranking and comparisons** |"
    )
    assert set(PICTURES.get("cifar10")(result)) == {"heat-maps", "curves", "depths"}
    assert {CHEFER_READ, DISCARDING, "leave-one-out, signed", "gradient-input, signed"} <= set(summary["difference"])
    assert summary["published_protocol"]["rollout"]["published"] is None  # the paper's discards
    again = list(cifar10.run(replace(setup, jobs=0)))[-1]
    assert again["rows"] == result["rows"]
    assert [seed["jobs"] for seed in again["by_seed"]] == [1]  # as many as there were when it was timed


def test_another_encoder_patch_or_other_images_are_another_source(setup, tmp_path):
    same = replace(setup, encoder=save_encoder(tmp_path / "again"), data=save_images(tmp_path / "images again"))
    others = [
        replace(setup, encoder=save_encoder(tmp_path / "weights", seed=1)),
        replace(setup, encoder=save_encoder(tmp_path / "patch", patch_size=7)),
        replace(setup, data=save_images(tmp_path / "images", seed=1)),
    ]
    first = find_sources(setup)
    assert find_sources(same).mark == first.mark  # by content, wherever that is
    assert len({first.mark, *(find_sources(other).mark for other in others)}) == 4
    assert "patch 14" in first.mark


def test_nothing_finished_is_used_for_another_source(setup, tmp_path):
    sources, config = find_sources(setup), TINY.tune
    found = cifar10.load_data(sources, TINY)
    other = replace(sources, mark="of other images")
    classifiers = [train_cifar10(each, found.task, found.labels, tmp_path, config) for each in (sources, other, other)]
    assert len({json.dumps(each) for each in classifiers}) == 2  # the seconds tell one training from another
    model = load_cifar10(tmp_path, torch.device("cpu"))
    fits = [fit_ranking(model, found.task, TINY, 0, tmp_path / "fit", each.mark)[1] for each in (sources, other, other)]
    assert len({json.dumps(each) for each in fits}) == 2


def test_another_encoder_runs_a_seed_again(setup, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    ran = []
    monkeypatch.setattr(cifar10, "run_seed", lambda size, sources, work, jobs, seed: ran.append(sources.encoder) or {})
    monkeypatch.setattr(cifar10, "_line", lambda seed, found: "ran")
    other = replace(setup, encoder=save_encoder(tmp_path / "other", seed=1))
    for each in (setup, setup, other):
        news = cifar10.run(each)
        assert [next(news), next(news)] == [1, "ran"]
    assert ran == [setup.encoder, other.encoder]


def test_images_are_found_in_the_data_directory_or_in_its_part(setup, tmp_path):
    assert find_sources(setup).images == setup.data
    save_images(tmp_path / "cifar10")
    (tmp_path / "sst.xz").write_bytes(b"another data set's")
    assert find_sources(replace(setup, data=tmp_path)).images == tmp_path / "cifar10"


def test_images_whose_results_were_known_are_left_to_the_published_protocol(setup):
    sources, first = find_sources(setup), 20  # the test images stand behind 20 training images
    found = cifar10.load_data(sources, replace(TINY, known=3, test=4))
    assert found.test == range(first + 3, first + 7) and found.published == range(first, first + 1)
    assert found.measured == range(first, first + 8)
    few = cifar10.load_data(sources, replace(TINY, known=1000, test=4))
    assert few.test == range(first + 4, first + 8)  # where there are too few, the last ones
    assert FULL.known == FULL.test == 1000


def test_positions_are_stretched_once_as_the_model_would(setup):
    model = make_classifier(setup.encoder, 28, seed=0).eval()
    own = transformers.Dinov2ForImageClassification.from_pretrained(setup.encoder, num_labels=10).eval()
    own.classifier.load_state_dict(model.classifier.state_dict())
    pixels = torch.randn(2, 3, 28, 28, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.allclose(model(pixels).logits, own(pixels).logits, atol=1e-5)
    assert model.config.image_size == 28


def test_patches_are_as_large_as_the_encoder_says(setup, tmp_path):
    assert patch_of(setup.encoder) == 14
    transformers.SiglipConfig(vision_config={"patch_size": 16}).save_pretrained(tmp_path)
    assert patch_of(tmp_path) == 16
    transformers.ResNetConfig().save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"resnet in .* has no square patches \(patch_size is None\): name a ViT"):
        patch_of(tmp_path)


def test_an_encoder_that_merges_its_patches_is_refused_before_it_is_trained(tmp_path):
    sizes = {"embed_dim": 8, "depths": [1, 1], "num_heads": [2, 2], "window_size": 2, "patch_size": 4}
    transformers.SwinModel(transformers.SwinConfig(**sizes, image_size=56)).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"SwinForImageClassification merges its patches.*use a ViT or DINOv2"):
        make_classifier(tmp_path, 28, seed=0)


def test_shifted_images_are_windows_of_their_mirrored_surroundings():
    images = torch.arange(2 * 3 * 32 * 32).remainder(251).to(torch.uint8).view(2, 3, 32, 32)
    found = shifted(images, torch.Generator().manual_seed(0))
    wide = torch.nn.functional.pad(images.float(), (4,) * 4, mode="reflect").to(torch.uint8)
    for image, whole in zip(found, wide, strict=True):
        windows = [whole[:, r : r + 32, c : c + 32] for r in range(9) for c in range(9)]
        assert any(torch.equal(image, window) or torch.equal(image, window.flip(-1)) for window in windows)


def test_keeps_remove_the_first_of_each_order():
    batch = Batch({}, torch.ones(1, 4, dtype=torch.bool))
    asked = Question(Adapter(nn.Identity(), [Site("input", nn.Identity())]), PatchCounting(train=1), batch, 0, None)
    scores = torch.tensor([[0.1, 0.9, 0.5, 0.3]])
    keeps = keeps_of(scores, torch.rand(1, 4), asked, 3)
    assert keeps[:, 0].tolist() == [[1, 1, 1, 1], [1, 0, 0, 1], [0] * 4, [1, 1, 1, 1], [0, 1, 1, 0], [0] * 4]


def test_areas_are_taken_over_the_share_removed():
    left = torch.tensor([1.0, 0.5, 0.0]).view(1, 1, 3, 1).expand(1, 2, 3, 2)
    assert torch.allclose(Curves(torch.tensor([0.0, 0.5, 1.0]), left).areas, torch.tensor(0.5))


def test_what_is_kept_is_the_smallest_share_that_held_the_margin():
    distances = torch.tensor([[0.0, 0.05, 0.3, 0.08, 2.0], [0.0, 0.2, 0.3, 0.4, 2.0]])  # falls again: still measured
    left = -distances.T.view(1, 1, 5, 2).expand(len(FIGURES), 2, 5, 2)
    found = Curves(torch.linspace(0, 1, 5), left).kept(0.1)
    assert found.tolist() == [0.25, 1.0]
    with_other_measures = torch.where(
        torch.arange(len(FIGURES)).view(-1, 1, 1, 1) == FIGURES.index("negative-kl"), left, -9
    )
    assert torch.equal(Curves(torch.linspace(0, 1, 5), with_other_measures).kept(0.1), found)


def test_the_smallest_keep_sets_are_compared_image_by_image():
    shares = {REFINED: 0.2, "rise": 0.3, "random": 0.9, "ranking": 0.1}
    seed = {(name, how): torch.full((40,), share) for name, share in shares.items() for how in REPLACEMENTS}
    found = summarise_kept([seed, {key: value + 0.1 for key, value in seed.items()}])
    assert found["share"][REFINED] == pytest.approx([0.25] * 3)
    assert found["seed_spread"]["rise"] == pytest.approx(0.1 / 2**0.5)
    assert summarise_kept([seed])["seed_spread"] == {}  # of one seed nothing is known
    assert found["first"]["rival"] == "rise"  # not the ranking, which is ours
    assert found["first"]["smaller_by"] == pytest.approx([0.1] * 3)


def test_an_interval_is_the_one_of_the_evaluation_room():
    figures = torch.rand(3, 50, generator=torch.Generator().manual_seed(0))
    expected = mean_interval(figures.mean(0))
    assert interval(list(figures)) == pytest.approx([expected.mean, expected.low, expected.high])


def made(least, most):
    """Make areas of two images in which every figure is the same."""
    return torch.tensor([most, least]).view(1, 2, 1).expand(len(FIGURES), 2, 2)


def test_first_compares_ours_with_the_best_rival():
    areas = [
        {(name, how): made(*ends) for how in REPLACEMENTS for name, ends in NAMES.items()}
        for NAMES in [{KEEP_SET: (0.8, 0.4), RANKING: (0.7, 0.2), "rise": (0.6, 0.3), "chefer": (0.75, 0.5)}]
    ]
    found = first(areas, KEEP_SET, "area_least_first")
    assert found["rival"] == "chefer" and found["better_by"][0] == pytest.approx(0.05) and found["outside"]
    found = first(areas, RANKING, "area_most_first")
    assert found["rival"] == "rise" and found["better_by"][0] == pytest.approx(0.1)
    assert not first(areas, KEEP_SET, "area_most_first")["outside"]
    assert first(areas, RANKING, "area_most_first", ["chefer"])["rival"] == "chefer"
    assert first(areas, RANKING, "area_most_first", PUBLISHED)["rival"] == "chefer"  # of those that were measured


def test_what_an_explanation_takes_is_spread_over_seeds():
    seeds = [{"cost": [{"images": 1, "time": time}, {"images": 8, "time": 2.0}]} for time in (1.0, 9.0, 2.0)]
    assert times_of(seeds) == {"1": [1.0, 9.0, 2.0], "8": [2.0] * 3}
    assert (
        spread_of(times_of(seeds)) == {"1": stdev([1.0, 9.0, 2.0]), "8": 0.0} and spread_of(times_of(seeds[:1])) == {}
    )


def test_passes_are_timed_by_the_fastest_before_and_after_in_batches_of_all_masks(monkeypatch):
    asked, seconds = [], iter([0.3, 0.1])
    monkeypatch.setattr(cifar10_time, "forward_seconds", lambda model, task, rows: asked.append(rows) or next(seconds))
    adapter = Adapter(nn.Linear(1, 1), [Site("input", nn.Identity())])
    task = StoredImages(torch.zeros(1, 3, 4, 4, dtype=torch.uint8), range(1), range(1), size=4, patch=4)
    made, timing = cifar10_time.timed(adapter, task, 4, 100, 3, lambda: "made")
    assert made == "made" and asked == [12, 12] and timing["forward_seconds"] == 0.1


def test_the_floor_counts_a_look_and_every_mask_forward_and_back():
    timing = Timing(fit_seconds=10.0, images=100, masks=2, forward_seconds=0.01)
    assert timing.floor_share == pytest.approx(0.5) and timing.three_forward_share == pytest.approx(0.3)
