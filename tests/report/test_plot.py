"""An explanation draws and shows itself, and a picture says what is kept without its colours."""

import io
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from diffmask.errors import DataError, SettingError
from diffmask.report.plot import WIDE, coloured_text, perturbation_curves, plot
from page_samples import HOSTILE, explained, explained_image, picture


def drawn(figure) -> int:
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return len(out.getvalue())


def texts(axis) -> list[str]:
    return [text.get_text() for text in axis.texts]


def test_a_text_is_drawn_units_by_depths():
    (axis,) = explained().plot().axes
    assert len(axis.texts) == 15 and axis.get_yticklabels()[0].get_text() == "embed"


def test_an_explanation_that_was_not_verified_is_drawn_and_says_so():
    (axis,) = explained(verification=None).plot().axes
    assert "not verified" in axis.get_title("left")


def test_a_text_at_one_depth_is_coloured_and_its_kept_units_are_bold_and_underlined():
    (axis,) = explained().plot(depth=2).axes
    assert texts(axis) == ["A", "fast", ",", "funny", "movie"]
    assert [text.get_fontweight() for text in axis.texts] == ["bold"] + ["normal"] * 4 and len(axis.lines) == 1


def test_long_text_goes_on_in_lines():
    figure = coloured_text(explained("word " * 60))
    (axis,) = figure.axes
    assert len({text.get_position()[1] for text in axis.texts}) == 4
    assert all(text.get_position()[0] + len(text.get_text()) <= WIDE for text in axis.texts) and drawn(figure) > 1000


@pytest.mark.filterwarnings("ignore:Glyph")  # matplotlib's own font has no emoji
@pytest.mark.parametrize("text", [text for text in HOSTILE if len(text) < 100], ids=range(len(HOSTILE) - 1))
def test_any_text_can_be_drawn(text):
    assert drawn(explained(text).plot()) > 1000 and drawn(coloured_text(explained(text))) > 1000


@pytest.mark.parametrize("image", [picture(), torch.rand(3, 32, 48)], ids=["pil", "tensor"])
def test_an_image_is_drawn_with_its_patches_evenly_and_upsampled(image):
    figure = explained_image().plot(image)
    even, smooth, plain = figure.axes
    assert len(even.patches) == 2 and not smooth.patches and drawn(figure) > 1000  # one kept patch: dark and light line
    shown = [axis.images[0].get_array() for axis in (even, smooth)]
    assert (shown[0] != shown[1]).any() and plain.get_title() == "the image"


def test_an_image_is_drawn_as_the_model_saw_it(tmp_path):
    lying, turned = Image.new("RGB", (30, 10)), Image.Exif()
    turned[0x0112] = 6  # a phone held upright
    lying.save(tmp_path / "lying.jpg", exif=turned)
    deep = Image.fromarray(np.full((4, 6), 257 * 51, dtype=np.uint16))
    sources = {
        "a path": (tmp_path / "lying.jpg", (30, 10), 0.0),
        "transparent": (Image.new("RGBA", (6, 4)), (4, 6), 1.0),
        "bytes": (np.full((4, 6, 3), 51, np.uint8), (4, 6), 0.2),
        "16 bits": (deep, (4, 6), 0.2),
    }
    for name, (source, size, shade) in sources.items():
        pixels = explained_image().plot(source).axes[2].images[0].get_array()
        assert pixels.shape == (*size, 3) and abs(pixels.mean() - shade) < 0.01, name


def test_an_image_is_drawn_without_what_the_processor_cut_off():
    explanation = explained_image()
    explanation = replace(explanation, info={**explanation.info, "seen": ["shorter side", 1.5, 1.0]})
    wide = Image.new("RGB", (120, 20), "white")
    wide.paste((255, 0, 0), (0, 0, 30, 20))
    pixels = explanation.plot(wide).axes[2].images[0].get_array()
    assert pixels.shape == (20, 30, 3) and (pixels == 1).all()


def test_patches_fade_with_the_chance_of_being_dropped():
    even, _ = explained_image().plot().axes
    pixels = even.images[0].get_array()
    assert pixels[0, 0].mean() < pixels[-1, -1].mean()


def test_a_depth_or_a_grid_that_is_not_there_is_named():
    with pytest.raises(SettingError, match="depth 3 does not exist"):
        explained().plot(depth=3)
    with pytest.raises(DataError, match="got the grid None"):
        plot(explained(), picture())


def test_perturbation_curves_are_drawn_both_ways():
    curve = {"shares": [0.0, 0.5, 1.0], "most_first": [1.0, 0.2, 0.0], "least_first": [1.0, 0.9, 0.0]}
    figure = perturbation_curves({"probe": curve, "random": curve}, "probability left")
    assert [axis.get_title() for axis in figure.axes] == ["most important first", "least important first"]
    assert (
        all(len(axis.lines) == 2 for axis in figure.axes)
        and len({line.get_marker() for line in figure.axes[0].lines}) == 2
    )


def test_showing_in_a_terminal_prints_the_check(capsys):
    explained().show()
    assert "holds: divergence 0.0500" in capsys.readouterr().out


def test_showing_in_a_notebook_displays_its_html(monkeypatch):
    class Shell:
        kernel = object()

    shown = []
    module = type(sys)("IPython")
    module.get_ipython, module.display = Shell, type(sys)("IPython.display")
    module.display.display = shown.append
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", module.display)
    explanation = explained()
    explanation.show()
    assert shown == [explanation] and "✓ holds" in shown[0]._repr_html_()


def test_an_explanation_as_a_page_is_whole_in_itself():
    html = explained_image().to_html(image=picture(), title="A cat?")
    assert "<h1>A cat?</h1>" in html and "data:image/png" in html and "Content-Security-Policy" in html


def test_an_image_in_a_terminal_is_a_grid_of_blocks_and_dots_at_every_depth(capsys):
    explained_image().show()
    out = capsys.readouterr().out
    assert (
        out.count("■ · ·") == 2 and out.count("· · ·") == 2 and "▸1 layers.1  17%" in out and " 0 layers.0  17%" in out
    )
