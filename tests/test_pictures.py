"""Pictures of every mode come out upright, opaque and in the right colours; bad ones are refused by name."""

import logging
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image

from diffmask.errors import DataError
from diffmask.pictures import open_picture, picture_folder

RED = (255, 0, 0)


def colour(image: Image.Image, place: tuple[int, int] = (0, 0)) -> tuple[int, ...]:
    return tuple(np.asarray(image)[place[::-1]].tolist())


def huge_png(width: int, height: int) -> bytes:
    """Make the file of a picture that says how large it is, and has no pixels to decode."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (Image.new("RGB", (2, 2), RED), RED),
        (Image.new("L", (2, 2), 100), (100, 100, 100)),
        (Image.new("1", (2, 2), 1), (255, 255, 255)),
        (Image.new("CMYK", (2, 2), (0, 255, 255, 0)), RED),
        (Image.new("RGBA", (2, 2), (*RED, 255)), RED),
        (Image.new("RGBA", (2, 2), (*RED, 0)), (255, 255, 255)),  # what is transparent shows the page
        (Image.new("LA", (2, 2), (0, 0)), (255, 255, 255)),
        (Image.new("RGB", (2, 2), RED).convert("P"), RED),
        (Image.fromarray(np.full((2, 2), 100 * 257, np.uint16)), (100, 100, 100)),  # 16 bits a pixel
        (Image.new("RGB", (1, 1), RED), RED),
    ],
    ids=lambda value: getattr(value, "mode", ""),
)
def test_every_mode_becomes_red_green_blue(image, expected):
    opened = open_picture(image)
    assert opened.mode == "RGB" and opened.size == image.size
    assert colour(opened) == pytest.approx(expected, abs=1)


def test_half_transparent_red_is_pink():
    assert colour(open_picture(Image.new("RGBA", (1, 1), (*RED, 128)))) == pytest.approx((255, 127, 127), abs=1)


def test_one_channel_is_grey():
    assert open_picture(Image.new("RGB", (2, 2), (9, 9, 9)), channels=1).mode == "L"


def test_a_photograph_lying_on_its_side_is_turned_upright(tmp_path):
    image = Image.new("RGB", (4, 2), "blue")
    image.paste(RED, (0, 0, 2, 2))  # on the left, which is up once it is turned clockwise
    exif = Image.Exif()
    exif[0x0112] = 6
    image.save(tmp_path / "side.png", exif=exif)
    opened = open_picture(tmp_path / "side.png")
    assert opened.size == (2, 4) and colour(opened, (0, 0)) == RED and colour(opened, (0, 3)) == (0, 0, 255)


def test_a_jpeg_in_the_colours_of_print_is_not_inverted(tmp_path):
    Image.new("CMYK", (16, 16), (0, 255, 255, 0)).save(tmp_path / "print.jpg")
    assert colour(open_picture(tmp_path / "print.jpg"), (8, 8)) == pytest.approx(RED, abs=8)


def test_bytes_come_as_arrays_and_tensors():
    array = np.zeros((2, 3, 3), np.uint8)
    array[0, 2] = RED
    for source in (array, torch.from_numpy(array).permute(2, 0, 1)):
        opened = open_picture(source)
        assert opened.size == (3, 2) and colour(opened, (2, 0)) == RED
    assert colour(open_picture(torch.full((1, 2, 2), 7, dtype=torch.uint8))) == (7, 7, 7)


def test_what_is_no_picture_is_refused():
    with pytest.raises(DataError, match=r"float64 and shape \(2, 2\) is not understood: give bytes"):
        open_picture(np.zeros((2, 2)))
    with pytest.raises(DataError, match=r"an image must be a file, .*, got int.*column"):
        open_picture(3)
    with pytest.raises(DataError, match=r"an image has mode 'F', numbers of any size"):
        open_picture(Image.new("F", (2, 2)))


def test_a_hundred_megapixels_are_refused_before_they_are_decoded(tmp_path):
    path = tmp_path / "huge.png"
    path.write_bytes(huge_png(10_000, 10_000))
    with pytest.raises(DataError, match=r"huge.png' has 10000×10000 pixels, more than the 64,000,000.*most_pixels"):
        open_picture(path)
    path.write_bytes(huge_png(30_000, 30_000))  # which Pillow refuses by itself
    with pytest.raises(DataError, match=r"huge.png' is too large to be decoded"):
        open_picture(path)
    with pytest.raises(DataError, match=r"an image has 3×3 pixels, more than the 8"):
        open_picture(Image.new("RGB", (3, 3)), most=8)


@pytest.mark.parametrize("size", [(0, 5), (5, 0)])
def test_a_picture_without_pixels_is_refused(size):
    with pytest.raises(DataError, match=rf"an image has {size[0]}×{size[1]} pixels, so that there is nothing to see"):
        open_picture(Image.new("RGB", size))


def test_sixteen_bits_of_any_format_are_shades(tmp_path):
    shades = np.array([[0, 100 * 257, 65535]], ">u2")
    (tmp_path / "deep.pgm").write_bytes(b"P5\n3 1\n65535\n" + shades.tobytes())
    opened = open_picture(tmp_path / "deep.pgm")
    assert [colour(opened, (place, 0))[0] for place in range(3)] == [0, 100, 255]


def test_where_most_pixels_allow_more_than_pillow_both_are_named(tmp_path):
    (tmp_path / "huge.png").write_bytes(huge_png(30_000, 30_000))
    with pytest.raises(DataError, match=r"Pillow.*PIL\.Image\.MAX_IMAGE_PIXELS"):
        open_picture(tmp_path / "huge.png", most=10**9)


def test_a_file_that_is_not_there_or_broken_is_named(tmp_path):
    with pytest.raises(DataError, match=r"there is no picture '.*no.png'"):
        open_picture(tmp_path / "no.png")
    (tmp_path / "text.png").write_text("this is no picture")
    with pytest.raises(DataError, match=r"text.png' cannot be read as a picture"):
        open_picture(str(tmp_path / "text.png"))


def test_a_picture_opened_by_others_is_named_when_it_turns_out_to_be_broken(tmp_path):
    save_noise(tmp_path / "cut.png")
    whole = (tmp_path / "cut.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])
    said = r"cut.png' cannot be read as a picture \(.*truncated.*\): replace it"
    with Image.open(tmp_path / "cut.png") as lazy, pytest.raises(DataError, match=said):
        open_picture(lazy)


def test_numbers_without_a_range_are_refused_by_name(tmp_path):
    Image.new("F", (2, 2)).save(tmp_path / "heights.tif")
    with pytest.raises(DataError, match=r"heights.tif' has mode 'F', numbers of any size.*0 to 255"):
        open_picture(tmp_path / "heights.tif")


@pytest.mark.parametrize("source", [np.zeros((0, 5, 3), np.uint8), torch.zeros(3, 5, 0, dtype=torch.uint8)])
def test_an_image_without_a_pixel_is_refused(source):
    with pytest.raises(DataError, match=r"an image of shape \(.*0.*\) has no pixels: leave it out"):
        open_picture(source)


def save_noise(path, **settings):
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)).save(path, **settings)


def test_a_folder_is_listed_by_name_and_what_is_broken_is_skipped_counted_and_named(tmp_path, caplog):
    for name in ("b/good.png", "a/good.jpg", "a/cut.jpg", "b/cut.png"):
        save_noise(tmp_path / name)
    for name in ("a/cut.jpg", "b/cut.png"):
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    (tmp_path / "a" / "empty.png").write_bytes(b"")
    (tmp_path / "huge.png").write_bytes(huge_png(10_000, 10_000))
    (tmp_path / "labels.txt").write_text("no picture, and none is expected")
    with caplog.at_level(logging.WARNING):
        found = picture_folder(tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in found] == ["a/good.jpg", "b/good.png"]
    (message,) = [record.getMessage() for record in caplog.records]
    assert "4 of 6 pictures" in message and "a/cut.jpg, a/empty.png, b/cut.png, huge.png" in message


def test_a_folder_may_be_listed_unread(tmp_path):
    (tmp_path / "bad.png").write_bytes(b"")
    assert picture_folder(tmp_path, check=False) == [tmp_path / "bad.png"]


def test_a_folder_without_a_picture_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"is no folder of pictures"):
        picture_folder(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"holds no pictures \(\.bmp, .*\): name another"):
        picture_folder(tmp_path)
    (tmp_path / "bad.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"none of the 1 pictures in .* can be read: .*bad.png"):
        picture_folder(tmp_path)


def test_the_bytes_of_a_file_open_like_the_file(tmp_path):
    Image.linear_gradient("L").resize((9, 7)).save(tmp_path / "x.png")
    opened = open_picture((tmp_path / "x.png").read_bytes())
    assert np.array_equal(opened, open_picture(tmp_path / "x.png"))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (huge_png(30_000, 30_000), "an image .*900000000 pixels"),
        (huge_png(9_000, 9_000), "an image has 9000×9000 pixels, more than the 64,000,000"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "an image cannot be read: its bytes are none of BMP"),
        (b"", "an image cannot be read"),
    ],
)
def test_bytes_that_are_no_picture_or_a_large_one_are_refused(content, sentence):
    with pytest.raises(DataError, match=sentence):
        open_picture(content)
