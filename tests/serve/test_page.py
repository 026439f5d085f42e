"""The page in a real Chromium: what is typed is explained, depth and margin move, and text stays text."""

import pytest

from diffmask.serve.access import Access

from .conftest import listening, picture

HOSTILE = "<script>window.hit = 1</script> <img src=x onerror='window.hit=1'> \u202egood film 👍"


@pytest.fixture(scope="module")
def home(embedded):
    with listening(embedded) as (host, port):
        yield f"http://{host}:{port}/"


def test_the_page_explains_what_is_typed_as_depth_and_margin_move(chromium_page, home):
    page = chromium_page.page
    page.goto(home)
    page.fill("#live-text", "A dull film with a good ending.")
    unit = page.locator(".dm-unit[data-unit]", has_text="dull")
    unit.wait_for()
    page.get_by_text("4 depths explained and checked").wait_for()

    probabilities = "all => all.map(unit => unit.style.getPropertyValue('--p'))"
    before = page.locator("#live-answer .dm-text .dm-unit").evaluate_all(probabilities)
    slider = page.locator(".dm-depth .dm-slider")
    slider.focus()
    assert "Depth 3 of 3" in page.locator(".dm-depth").inner_text()
    page.keyboard.press("ArrowLeft")
    assert "Depth 2 of 3" in page.locator(".dm-depth").inner_text()
    assert "verified here" in page.locator(".dm-depth").inner_text()
    assert page.locator("#live-answer .dm-text .dm-unit").evaluate_all(probabilities) != before
    assert "at depth 2" in page.locator(".dm-head").inner_text()

    kept = page.locator("#live-answer .dm-text .dm-kept")
    counts = []
    for step in (0, 100):
        with page.expect_response("**/entry"):
            page.locator("#live-margin").fill(str(step))
        page.get_by_text("holds, certified").wait_for()
        page.locator(".dm-check small", has_text="margin 0.001" if step == 0 else "margin 5").wait_for()
        counts.append(kept.count())
    page.locator("#live-margin").focus()
    page.keyboard.press("ArrowLeft")
    assert page.locator("#live-margin").input_value() == "99"  # and the depth stays
    assert counts[0] > counts[1] and "Depth 2 of 3" in page.locator(".dm-depth").inner_text()
    assert chromium_page.errors == []
    assert all(url.startswith((home, "data:", "blob:")) for url in chromium_page.requests)


def test_hostile_text_is_shown_as_text(chromium_page, home):
    page = chromium_page.page
    page.goto(home)
    page.fill("#live-text", HOSTILE)
    page.locator(".dm-unit[data-unit]", has_text="script").first.wait_for()
    assert page.evaluate("window.hit") is None and page.locator("#live-answer img").count() == 0
    page.fill("#live-text", "good " * 2000)
    page.get_by_text("tokens are more than the model takes").wait_for()
    assert page.locator("#live-answer .dm-text .dm-unit").count() == 128
    assert chromium_page.errors == []


def test_an_error_is_one_sentence_on_the_page(chromium_page, home):
    page = chromium_page.page
    page.goto(home)
    page.get_by_text("depths explained and checked").wait_for()
    page.route("**/entry", lambda route: route.fulfill(status=503, json={"error": "try again in a moment"}))
    page.fill("#live-text", "Fine.")
    page.locator(".live-wrong", has_text="try again in a moment").wait_for()


def test_an_image_is_chosen_and_its_patches_are_shown(chromium_page, vision, tmp_path):
    (tmp_path / "image.png").write_bytes(picture())
    (tmp_path / "none.png").write_bytes(b"no image")
    page = chromium_page.page
    with listening(vision) as (host, port):
        page.goto(f"http://{host}:{port}/")
        page.set_input_files("#live-image", tmp_path / "none.png")
        page.locator(".live-wrong", has_text="an image cannot be read").wait_for()
        page.set_input_files("#live-image", tmp_path / "image.png")
        page.locator("#live-answer .dm-picture img").first.wait_for()
        assert "kept" in page.locator("#live-answer .dm-picture[role=img]").first.get_attribute("aria-label")
    assert [each for each in chromium_page.errors if "422" not in each] == []  # the browser logs the refusal itself


def test_on_a_telephone_nothing_reaches_beyond_the_screen(chromium_page, vision, tmp_path):
    (tmp_path / "image.png").write_bytes(picture())
    page = chromium_page.page
    page.set_viewport_size({"width": 390, "height": 844})
    with listening(vision) as (host, port):
        page.goto(f"http://{host}:{port}/")
        page.set_input_files("#live-image", tmp_path / "image.png")
        page.locator("#live-answer .dm-picture img").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_the_page_sends_the_token_of_its_address_and_takes_it_out_of_sight(chromium_page, embedded):
    token = "0123456789abcdef"
    page = chromium_page.page
    with listening(embedded, access=Access(token=token)) as (host, port):
        home = f"http://{host}:{port}/"
        page.goto(f"{home}#token={token}")
        page.get_by_text("depths explained and checked").wait_for()
        assert page.url == home and chromium_page.errors == []
        page.reload()
        page.get_by_text("depths explained and checked").wait_for()
        page.evaluate("sessionStorage.clear()")
        page.reload()
        page.locator(".live-wrong", has_text="a token is needed").wait_for()
