"""CIFAR-10 is read back byte for byte from either form, and stored images become what a model takes."""

import numpy as np
import pytest
import torch

from diffmask.errors import DataError
from diffmask.tasks.cifar10 import pack_images, read_cifar10, unpack_images
from diffmask.tasks.stored_images import MEAN, STD, StoredImages

DRAW = np.random.default_rng(0)
NOISE = DRAW.integers(0, 256, (5, 3, 32, 32), dtype=np.uint8)  # the hardest case: nothing can be foretold
SMOOTH = np.broadcast_to(np.arange(32, dtype=np.uint8) * 8, (2, 3, 32, 32)).copy()
LABELS = np.array([3, 1, 4, 1, 5, 9, 2], np.uint8)


def test_packed_images_come_back_byte_for_byte(tmp_path):
    images = np.concatenate([NOISE, SMOOTH])
    pack_images(tmp_path / "train-0.xz", images, LABELS)
    again, labels = unpack_images(tmp_path / "train-0.xz")
    assert (again == images).all() and (labels == LABELS).all()


def test_both_forms_hold_the_same_images(tmp_path):
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    arrays = {f"x_{part}": NOISE.transpose(0, 2, 3, 1) for part in ("train", "test")}
    np.savez(tmp_path / "whole/cifar10.npz", **arrays, y_train=LABELS[:5], y_test=LABELS[:5])
    pack_images(tmp_path / "parts/train-0.xz", NOISE[:3], LABELS[:3])
    pack_images(tmp_path / "parts/train-1.xz", NOISE[3:], LABELS[3:5])
    whole, parts = (read_cifar10(tmp_path / name, "train") for name in ("whole", "parts"))
    assert torch.equal(whole.images, parts.images) and torch.equal(whole.labels, parts.labels) and len(whole) == 5


def test_missing_and_broken_parts_are_named(tmp_path):
    with pytest.raises(DataError, match=r"cifar10\.npz, or parts named test-0\.xz"):
        read_cifar10(tmp_path, "test")
    (tmp_path / "test-0.xz").write_bytes(b"no xz")
    with pytest.raises(DataError, match=r"test-0\.xz' is no part of packed images"):
        read_cifar10(tmp_path, "test")


def test_stored_images_are_resized_and_normalised():
    task = StoredImages(torch.full((3, 3, 4, 4), 255, dtype=torch.uint8), range(2), range(2, 3), size=8, patch=4)
    batch = task.collate(task.train)
    white = torch.tensor([(1 - mean) / std for mean, std in zip(MEAN, STD, strict=True)])
    assert batch.inputs["pixel_values"].shape == (2, 3, 8, 8) and batch.valid.shape == (2, 4)
    assert torch.allclose(batch.inputs["pixel_values"][0, :, 3, 3], white)
    assert task.units([0]) == [["0,0", "0,1", "1,0", "1,1"]]


def test_a_size_that_is_no_multiple_of_the_patch_is_refused():
    with pytest.raises(DataError, match="10 pixels cannot be cut into patches of 4"):
        StoredImages(torch.zeros(1, 3, 4, 4, dtype=torch.uint8), range(1), range(1), size=10, patch=4)
