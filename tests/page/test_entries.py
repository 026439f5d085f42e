"""An entry says what its explanation says, and refuses what is none."""

import base64
import io
import json

import numpy as np
import pytest
import torch
from PIL import Image

from diffmask.errors import DataError
from diffmask.page.entries import entry, shared, visible
from diffmask.page.picture import LARGEST, check_picture, picture_uri
from diffmask.report.plain import record
from page_samples import HOSTILE, explained, explained_image, picture, picture_bytes


def test_an_entry_of_an_explanation_and_of_its_record_are_the_same():
    explanation = explained()
    written = json.loads(json.dumps(record(explanation, "a text")))
    assert entry(explanation, "a text") == entry(written)


def test_an_entry_holds_scores_as_probabilities_and_what_was_measured():
    found = entry(explained())
    assert found["scores"][2][0] == 0.95 and found["kept"] == [True, False, False, False, False]
    assert found["prediction"] == "positive" and found["verification"]["within_margin"] is True
    assert found["about"] == {"settings": {"kind": "input", "margin": 0.1}, "versions": {"torch": "2.13.0"}}


def test_pieces_of_a_word_are_joined_and_lose_their_marks():
    found = entry(explained("en ##joy ##able film"))
    assert found["units"] == ["en", "joy", "able", "film"] and found["joined"] == [False, True, True, False]


def test_what_turns_text_around_is_named_and_joiners_stay():
    assert visible("a\u202eb") == "a‹U+202E›b"
    assert visible("👩\u200d🚀 é نیم\u200cفاصله") == "👩\u200d🚀 é نیم\u200cفاصله"
    assert visible("\ud800\x00") == "‹U+D800›‹U+0000›"


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_becomes_an_entry_that_can_be_written(text):
    json.dumps(entry(explained(text), text)).encode()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"units": None}, "no 'units'"),
        ({"scores": [[0.5]]}, "needs as many scores"),
        ({"kept": [True]}, "needs as many scores"),
        ({"depth": 7}, "has only 3 depths"),
        ({"picture": "https://example.org/a.png"}, "must be a data URI"),
        ({"rivals": [{"method": "random", "scores": [1.0]}]}, "random has 1 scores for 5 units"),
    ],
)
def test_what_is_no_explanation_is_refused(change, said):
    whole = {**record(explained(), ""), **change}
    with pytest.raises(DataError, match=said):
        entry({key: value for key, value in whole.items() if value is not None})


def test_a_rivals_scores_are_scaled_to_its_largest():
    rival = {"method": "random", "scores": [-4.0, 2.0, 0.0, 1.0, float("nan")], "kept": [True] + [False] * 4}
    (found,) = entry({**record(explained(), ""), "rivals": [rival]})["rivals"]
    assert found["shares"] == [-1.0, 0.5, 0.0, 0.25, 0.0] and found["divergence"] is None


def test_an_image_keeps_its_grid_only_where_units_are_patches():
    assert entry(explained_image())["grid"] == [2, 3]
    assert entry({**record(explained(), ""), "grid": [2, 3]})["grid"] is None


@pytest.mark.parametrize("image", [picture(2000, 500), picture_bytes()], ids=["pil", "bytes"])
def test_a_picture_is_written_out_and_small(image):
    uri = picture_uri(image)
    assert check_picture(uri) == uri and len(uri) < 40_000 and LARGEST < 1000


def shown(image):
    """Return the picture that a page shows, as Pillow reads it."""
    return Image.open(io.BytesIO(base64.b64decode(picture_uri(image).partition(",")[2])))


def test_a_picture_is_shown_upright_and_on_white_as_the_model_saw_it(tmp_path):
    lying, turned = Image.new("RGB", (30, 10)), Image.Exif()
    turned[0x0112] = 6  # a phone held upright
    lying.save(tmp_path / "a.jpg", exif=turned)
    assert shown(tmp_path / "a.jpg").size == (10, 30)
    assert shown(Image.new("RGBA", (2, 2), (255, 0, 0, 0))).getpixel((0, 0)) == (255, 255, 255)
    deep = Image.fromarray(np.full((2, 2), 65535, dtype=np.uint16))
    assert shown(deep).getpixel((0, 0)) == (255, 255, 255)


def test_a_picture_shows_the_part_that_the_model_saw():
    wide = Image.new("RGB", (120, 20), "white")
    wide.paste((255, 0, 0), (0, 0, 30, 20))
    explained = {**record(explained_image(), "cat.png"), "info": {"grid": [2, 3], "seen": ["shorter side", 1.5, 1.0]}}
    cut = Image.open(io.BytesIO(base64.b64decode(entry(explained, picture=wide)["picture"].partition(",")[2])))
    assert cut.size == (30, 20) and cut.getcolors() == [(600, (255, 255, 255))]  # the red end was cut off
    assert "seen" not in entry(explained)["about"]["settings"]


def test_a_tensor_of_floats_is_what_the_model_was_shown_already():
    assert shown(torch.tensor([1.0, 0.0, 0.0]).view(3, 1, 1).expand(3, 4, 6)).getpixel((5, 3)) == (255, 0, 0)


def test_a_picture_that_is_too_large_is_refused_before_it_is_decoded(tmp_path):
    huge = Image.new("1", (8_100, 8_000))
    huge.save(tmp_path / "huge.png")
    with Image.open(tmp_path / "huge.png") as opened, pytest.raises(DataError, match="8100×8000 pixels, more than"):
        picture_uri(opened)


def test_what_is_no_image_is_refused(tmp_path):
    (tmp_path / "a.png").write_text("not an image")
    for wrong in (b"GIF89a", tmp_path / "a.png", tmp_path / "none.png", 3):
        with pytest.raises(DataError, match=r"cannot be read|there is no picture|an image must be a file"):
            picture_uri(wrong)


def test_what_entries_share_is_written_once():
    slim, about = shared([entry(explained()), entry(explained("B")), entry(explained_image())])
    assert [each["about"] for each in slim] == [0, 0, 1] and len(about) == 2
