"""A page is one file, nothing in a text becomes markup, and its policy allows only what it brings."""

import base64
import hashlib
import json
import re

import pytest

from diffmask.page.entries import entry
from diffmask.page.html import ASSETS, asset, embedded_json, fragment_html, page_html
from page_samples import COMPARISON, HOSTILE, explained, explained_image, picture


def script_and_style(html: str) -> tuple[str, str]:
    return re.findall(r"<script>(.*?)</script>", html, re.DOTALL)[0], re.findall(
        "<style>(.*?)</style>", html, re.DOTALL
    )[0]


def test_a_report_asks_for_nothing():
    html = page_html([entry(explained())])
    assert not re.findall(r"""(?:src|href)=["'](?!data:)[^"']*""", html.split("<script")[0])
    assert "http" not in html.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")


def test_the_policy_names_the_script_and_the_style_by_their_hashes():
    html = page_html([entry(explained())])
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)[1].replace("&#39;", "'")
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy
    for part in script_and_style(html):
        assert base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() in policy


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_cannot_end_the_element_it_stands_in(text):
    html = page_html([entry(explained(text), text)], title=text)
    data = re.findall(r'id="diffmask-data">(.*?)</script>', html, re.DOTALL)
    assert len(data) == 1 and html.count("<script") == 2 and "<img" not in html
    assert json.loads(data[0])["entries"][0]["units"]


def test_embedded_json_is_ascii_and_reads_back():
    value = {"</script>": "\u2028 & <!-- ש 🚀"}
    written = embedded_json(value)
    assert written.isascii() and not set("<>&") & set(written) and json.loads(written) == value


def test_a_comparison_is_a_table_whose_names_stay_text():
    html = page_html([], comparisons={"my <u>table</u>": COMPARISON})
    assert "&lt;i&gt;random&lt;/i&gt;" in html and "<u>table" not in html and "<b>site" not in html
    assert 'class="dm-first">0.500* [0.100, 0.900]' in html and 'id="report"' not in html


def test_a_live_page_links_its_assets():
    html = page_html([], mode="live", scripts=["/page/view.js", "/page/live.js"], styles=["/page/view.css"])
    assert 'src="/page/live.js"' in html and 'href="/page/view.css"' in html and '<div id="live">' in html
    assert all(asset(name) for name in ASSETS)


def test_a_fragment_has_no_script_and_marks_what_is_kept():
    html = fragment_html(explained("<script>alert(1)</script> , funny movie !"))
    assert "<script" not in html and "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert html.count("dm-line") >= 3 and "✓ holds: divergence 0.0500 ≤ 0.1 (kl)" in html
    assert re.findall(r'dm-u dm-k" style="--p:0.95" title="kept, 0.95"', html)


def test_a_fragment_of_an_image_shows_every_depth():
    html = fragment_html(explained_image(), picture=picture())
    assert html.count("<svg") == 2 and html.count("<rect") == 12 and html.count("data:image/png") == 2


def test_a_fragment_without_a_check_claims_nothing():
    assert "not verified" in fragment_html(explained(verification=None))
