import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"<!-- run -->\n```python\n(.*?)```", README, re.DOTALL)


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


def test_every_room_is_on_the_map():
    rooms = [path.parent.name for path in (Path(__file__).parents[1] / "src" / "diffmask").glob("*/__init__.py")]
    assert [room for room in rooms if f"`{room}/`" not in README] == []
