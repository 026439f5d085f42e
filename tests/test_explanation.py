"""An explanation says what it knows, claims nothing it has not measured, and survives the disk."""

import pytest
import torch

from diffmask.errors import DataError, SettingError, StorageError
from diffmask.explanation import Explanation, Verification, to_pixels
from diffmask.storage import save_tensors

MEASURED = Verification(0.04, 0.1, "kl", {"label": 1}, {"label": 1})


def explanation(**changes) -> Explanation:
    fields = dict(
        units=("a", "b", "c"),
        depths=("input", "block.0"),
        scores=torch.tensor([[-0.1, -1.0, -2.0], [-0.2, -3.0, -40.0]]),
        depth=1,
        kept=torch.tensor([True, False, True]),
    )
    return Explanation(**{**fields, **changes})


def test_the_kept_units_are_named_in_order():
    assert explanation().kept_units == ("a", "c")


def test_without_a_verification_nothing_is_claimed():
    assert not explanation().verified


@pytest.mark.parametrize(("divergence", "holds"), [(0.0, True), (0.1, True), (0.1001, False), (float("nan"), False)])
def test_an_explanation_is_verified_when_its_measured_divergence_is_within_the_margin(divergence, holds):
    assert explanation(verification=Verification(divergence, 0.1, "kl", {}, {})).verified is holds


def test_the_prediction_is_the_same_only_when_every_output_is():
    assert MEASURED.same_prediction
    assert not Verification(0.04, 0.1, "kl", {"start": 1, "end": 2}, {"start": 1, "end": 3}).same_prediction


def test_scores_of_another_shape_are_refused_with_both_shapes():
    with pytest.raises(SettingError, match=r"3 units at 2 depths.*scores \(2, 2\) and kept \(2,\)"):
        explanation(scores=torch.zeros(2, 2), kept=torch.ones(2, dtype=torch.bool))


def test_a_prediction_of_values_is_neither_the_same_nor_another():
    assert Verification(0.04, 0.1, "kl", {}, {}).same_prediction is None


@pytest.mark.parametrize("verification", [None, Verification(0.2, 0.1, "kl", {}, {})])
def test_what_was_not_measured_to_hold_is_not_certified(verification):
    with pytest.raises(SettingError, match=r"needs a verification within its margin: use certify\(\)"):
        explanation(verification=verification, certified=True)


def test_two_explanations_are_compared_by_identity():
    one = explanation()
    assert one == one and one != explanation() and len({one, explanation()}) == 2


@pytest.mark.parametrize("verification", [None, MEASURED])
def test_an_explanation_survives_the_disk(tmp_path, verification):
    certified = verification is not None
    before = explanation(verification=verification, certified=certified, info={"seed": 3, "measure": "kl"})
    before.save(tmp_path / "it.safetensors")
    after = Explanation.load(tmp_path / "it.safetensors")
    assert torch.equal(after.scores, before.scores) and torch.equal(after.kept, before.kept)
    for name in ("units", "depths", "depth", "verification", "certified", "info"):
        assert getattr(after, name) == getattr(before, name)


def test_a_file_of_another_kind_is_no_explanation(tmp_path):
    save_tensors(tmp_path / "probe", "probe", {"w": torch.zeros(1)}, {})
    with pytest.raises(StorageError, match="is a saved probe: give the path of a saved explanation"):
        Explanation.load(tmp_path / "probe")


def test_every_pixel_has_the_score_of_its_patch():
    scores = torch.arange(12.0).view(2, 6)
    shown = to_pixels(scores, grid=(2, 3), size=(8, 6))
    assert shown.shape == (2, 8, 6)
    for row in range(8):
        for column in range(6):
            assert shown[1, row, column] == scores[1, (row // 4) * 3 + column // 2]


def test_blended_scores_keep_the_middle_of_each_patch_and_go_straight_between():
    scores = torch.tensor([1.0, 3.0])
    shown = to_pixels(scores, grid=(1, 2), size=(3, 6), how="bilinear")
    assert shown[0].tolist() == pytest.approx([1, 1, 1 + 2 / 3, 1 + 4 / 3, 3, 3])
    assert torch.equal(scores, torch.tensor([1.0, 3.0]))


def test_a_size_that_is_no_multiple_of_the_grid_gives_each_pixel_the_patch_its_middle_lies_in():
    assert to_pixels(torch.tensor([0.0, 1.0]), grid=(1, 2), size=(1, 3))[0].tolist() in ([0, 0, 1], [0, 1, 1])


def test_scores_that_do_not_fill_the_grid_are_refused():
    with pytest.raises(DataError, match=r"5 scores are not one for each patch of a grid of 2×3: .*task.grid"):
        to_pixels(torch.zeros(5), (2, 3), (8, 6))
