"""The pictures of the CIFAR-10 study, from its committed result."""

import json
from pathlib import Path

import pytest

from diffmask.report.cifar10 import WIDEST, pictures

RESULT = Path(__file__).parents[2] / "results" / "cifar10.json"


@pytest.fixture(scope="module")
def drawn():
    return pictures(json.loads(RESULT.read_text()))


def test_no_title_runs_into_its_neighbours(drawn):
    for name in ("heat-maps", "depths"):
        titles = [axis.get_title() for axis in drawn[name].get_axes()]
        assert max(len(line) for title in titles for line in title.split("\n")) <= WIDEST + 2


def test_a_long_site_is_written_whole(drawn):
    titles = [axis.get_title() for axis in drawn["depths"].get_axes()]
    assert "embeddings.\npatch_embeddings.\nprojection" in titles and "encoder.layer.11" in titles
