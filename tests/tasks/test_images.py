"""Images of every origin become the same batch, their patches named by row and column; bad ones are refused."""

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import CLIPImageProcessorPil, ViTImageProcessorPil

from diffmask.errors import DataError, SettingError
from diffmask.pictures import as_shown
from diffmask.tasks.images import Examples, ImageClassification, PlainProcessor
from diffmask.types import Categorical

PLAIN = PlainProcessor((8, 12))


def noise(height: int = 30, width: int = 20, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def make_task(examples, processor=PLAIN, **settings):
    return ImageClassification(processor, examples, examples, **{"patch": 4, **settings})


class Output:
    logits = torch.zeros(1, 3)


@pytest.mark.parametrize("shape", [(30, 20), (1, 1), (3, 5), (1, 7), (8, 12)])
def test_the_plain_processor_agrees_with_transformers_own(shape):
    image = Image.fromarray(noise(*shape))
    own = ViTImageProcessorPil(size={"height": 8, "width": 12})(images=[image], return_tensors="pt")
    torch.testing.assert_close(PLAIN(images=[image])["pixel_values"], own["pixel_values"], rtol=0, atol=1e-6)


def test_every_origin_gives_the_same_pixels(tmp_path):
    array = noise()
    Image.fromarray(array).save(tmp_path / "noise.png")
    image, path = Image.fromarray(array), tmp_path / "noise.png"
    examples = [array, torch.from_numpy(array).permute(2, 0, 1), image, path, str(path), {"image": image}, (image, 7)]
    examples += [{"image": {"bytes": path.read_bytes(), "path": "lost.png"}}, {"image": {"bytes": None, "path": path}}]
    pixels = make_task(examples).collate(examples).inputs["pixel_values"]
    assert pixels.shape == (9, 3, 8, 12) and all(torch.equal(row, pixels[0]) for row in pixels)
    assert torch.equal(pixels[0], PLAIN(images=[image])["pixel_values"][0])


def test_a_tensor_of_floats_is_ready_for_the_model():
    pixels = torch.randn(5, 3, 8, 12)
    task = ImageClassification(None, pixels[:3], pixels[3:], patch=4)
    assert len(task.train) == 3 and torch.equal(task.collate(task.train[1:]).inputs["pixel_values"], pixels[1:3])
    with pytest.raises(DataError, match="only tensors of floats are ready for the model: give a processor"):
        task.collate([noise()])


def test_units_are_patches_named_by_row_and_column():
    task = make_task([noise()])
    assert task.grid == (2, 3)
    assert task.units(task.train) == [["0,0", "0,1", "0,2", "1,0", "1,1", "1,2"]]
    batch = task.collate(task.train)
    assert batch.valid.shape == (1, 6) and batch.valid.all() and batch.place is None


def test_patches_need_not_be_square():
    assert make_task([noise()], patch=(8, 3)).grid == (1, 4)


@pytest.mark.parametrize("wrong", [None, 0, (4, -4)])
def test_a_patch_that_is_none_is_refused(wrong):
    with pytest.raises(SettingError, match=r"height and width of a patch in pixels, got .*: pass patch=adapt\(model\)"):
        make_task([noise()], patch=wrong)


def test_a_processor_of_transformers_crops():
    processor = CLIPImageProcessorPil(size={"shortest_edge": 8}, crop_size={"height": 8, "width": 8})
    task = make_task([noise(), noise(20, 40)], processor)
    assert task.collate(task.train).inputs["pixel_values"].shape == (2, 3, 8, 8)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"size": {"shortest_edge": 32}, "crop_size": {"height": 24, "width": 28}}, ("shorter side", 0.875, 0.75)),
        ({"size": {"height": 64, "width": 64}, "crop_size": {"height": 48, "width": 48}}, ("sides", 0.75, 0.75)),
        ({"do_resize": False, "crop_size": {"height": 48, "width": 64}}, ("pixels", 64, 48)),
        ({"do_resize": False, "crop_size": {"height": 1000, "width": 1000}}, ("pixels", 1000, 1000)),  # padded
        ({"size": {"height": 64, "width": 64}, "do_center_crop": False}, None),  # all of it
        ({"size": {"shortest_edge": 64}, "do_center_crop": False}, None),
    ],
)
def test_what_a_processor_cuts_off_is_measured(settings, expected):
    seen = make_task([noise()], CLIPImageProcessorPil(**settings)).seen
    assert seen is expected is None or (seen[0] == expected[0] and seen[1:] == pytest.approx(expected[1:], rel=0.02))


def test_a_cut_picture_shows_what_the_model_was_shown():
    processor = CLIPImageProcessorPil(size={"shortest_edge": 40}, crop_size={"height": 32, "width": 32})
    task = make_task([noise()], processor)
    picture = Image.linear_gradient("L").resize((90, 60)).convert("RGB")
    shown = as_shown(picture, task.seen).resize((32, 32))
    plain = PlainProcessor((32, 32), tuple(processor.image_mean), tuple(processor.image_std))
    found, expected = task.pixels(picture), plain(images=[shown])["pixel_values"][0]
    assert (found - expected).abs().mean() < 0.1  # a window one row beside it would be off by as much


def test_of_a_plain_processor_and_of_tensors_that_are_ready_all_is_seen():
    assert make_task([noise()]).seen is None
    assert ImageClassification(None, torch.zeros(1, 3, 8, 12), None, patch=4).seen is None


def test_other_sizes_and_modes_become_one(tmp_path):
    examples = [Image.new(mode, size) for mode, size in [("L", (9, 3)), ("RGBA", (1, 1)), ("CMYK", (50, 4))]]
    assert make_task(examples).collate(examples).inputs["pixel_values"].shape == (3, 3, 8, 12)


def test_a_processor_that_makes_images_of_different_sizes_is_refused():
    processor = CLIPImageProcessorPil(size={"shortest_edge": 8}, do_center_crop=False)
    task = make_task([noise(16, 16), noise(16, 32)], processor)
    with pytest.raises(DataError, match=r"an image has 8×16 pixels when the model sees it, and others 8×8: .*crops"):
        task.collate(task.train)


def test_an_image_that_cannot_be_cut_into_patches_is_refused():
    with pytest.raises(DataError, match=r"8×12 pixels cannot be cut into patches of 5×5: pass the patch of the model"):
        make_task([noise()], patch=5).collate([noise()])


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_pixels_that_are_no_numbers_are_refused(bad):
    pixels = torch.zeros(1, 3, 8, 12)
    pixels[0, 1, 2, 3] = bad
    with pytest.raises(DataError, match="an image has NaN or infinite pixels, 1 of them"):
        make_task(pixels).collate(list(pixels))


def test_shapes_that_are_no_images_are_refused():
    with pytest.raises(DataError, match=r"4 axes .* got \(3, 8, 12\)"):
        make_task(torch.zeros(3, 8, 12))
    with pytest.raises(DataError, match=r"has shape \(8, 12\), and \(channel, height, width\) is needed"):
        make_task([noise()]).collate([torch.zeros(8, 12)])
    with pytest.raises(DataError, match="there are no images"):
        make_task([])
    with pytest.raises(DataError, match="a list, a tensor, a folder or a data set, got int"):
        make_task(3)


def test_a_row_without_the_column_is_refused():
    rows = [{"img": noise(), "label": 1}]
    assert make_task(rows, column="img").grid == (2, 3)
    with pytest.raises(DataError, match=r"no column 'image', only img, label: name it"):
        make_task(rows).collate(rows)


def test_a_folder_is_read_lazily(tmp_path):
    for number in range(3):
        Image.fromarray(noise(seed=number)).save(tmp_path / f"{number}.png")
    task = ImageClassification(PLAIN, tmp_path, str(tmp_path), patch=4)
    assert [path.name for path in task.train] == ["0.png", "1.png", "2.png"]
    (tmp_path / "2.png").unlink()
    task.collate(task.train[:2])
    with pytest.raises(DataError, match=r"there is no picture '.*2.png'"):
        task.collate(task.train)


def test_a_data_set_is_asked_for_a_row_when_it_is_needed():
    asked = []

    class Rows:
        def __len__(self):
            return 4

        def __getitem__(self, row):
            asked.append(row)
            return {"image": noise(seed=row)}

    task = make_task(Rows())
    part = task.train[1:3]
    assert isinstance(part, Examples) and len(part) == 2 and not asked
    task.collate(part)
    assert asked == [1, 2]


def test_labels_are_named_for_each_the_model_knows():
    task, other = (make_task([noise()], labels=names) for names in ("abc", "ab"))
    batch = task.collate(task.train)
    assert isinstance(task.read(Output(), batch)["label"], Categorical)
    with pytest.raises(DataError, match="2 labels are named and the model knows 3"):
        other.read(Output(), batch)


def test_positions_are_stretched_when_asked():
    assert "interpolate_pos_encoding" not in make_task([noise()]).collate([noise()]).inputs
    assert make_task([noise()], interpolate=True).collate([noise()]).inputs["interpolate_pos_encoding"] is True


def test_what_is_no_image_processor_is_refused():
    with pytest.raises(DataError, match=r"dict makes no pixel_values of an image"):
        make_task([noise()], processor={}).collate([noise()])


def test_a_processor_may_return_a_list_of_arrays():
    def listing(images, return_tensors):
        return {"pixel_values": [np.asarray(image, np.float64).transpose(2, 0, 1) for image in images]}

    pixels = make_task([noise(8, 12)], listing).collate([noise(8, 12)]).inputs["pixel_values"]
    assert torch.equal(pixels[0], torch.from_numpy(noise(8, 12)).permute(2, 0, 1).float())


def test_a_grey_model_gets_grey_images():
    task = make_task([noise()], PlainProcessor((8, 12), (0.5,), (0.5,)))
    assert task.collate(task.train).inputs["pixel_values"].shape == (1, 1, 8, 12)
