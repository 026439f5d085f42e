import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
RUN = re.compile(r"<!-- run -->\n```python\n(.*?)```", re.DOTALL)
BLOCKS = RUN.findall(README)
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if RUN.search(path.read_text()))


def test_the_readmes_example_runs_and_says_what_it_promises(capsys):
    assert BLOCKS
    for block in BLOCKS:
        names: dict[str, object] = {}
        exec(block, names)
        explanation = names["explanation"]
        assert explanation.verified
        assert len(explanation.kept_units) < len(explanation.units)
        assert set(explanation.kept_units) <= {"good", "bad"} or "enjoyable" in explanation.kept_units
    assert "→" in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_of_the_docs_run(page):
    for block in RUN.findall(page.read_text()):
        exec(block, {})


def test_every_room_is_on_the_map():
    rooms = [path.parent.name for path in (ROOT / "src" / "diffmask").glob("*/__init__.py")]
    assert [room for room in rooms if f"`{room}/`" not in README] == []
