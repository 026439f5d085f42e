"""What the README and the documentation show runs: Python and `diffmask` commands, page by page."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from diffmask.attribution import METHODS
from diffmask.evaluation import METRICS, REMOVALS
from diffmask.objective.divergence import DIVERGENCES
from diffmask.objective.sparsity import SPARSITIES
from diffmask.studies import STUDIES
from diffmask.tasks.described import TASKS
from diffmask.training.config import RECIPES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
RUN = re.compile(r"<!-- run -->\n```(python|sh)\n(.*?)```", re.DOTALL)
BLOCKS = [code for _, code in RUN.findall(README)]
TUTORIALS = sorted((ROOT / "docs" / "tutorial").glob("*.md"))
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if RUN.search(path.read_text()))
TYPE_IN = '''
def type_in(command):
    """Run a `diffmask` command in this process, where everything is imported already."""
    import shlex, sys
    from diffmask.cli.main import main

    before, sys.argv = sys.argv, shlex.split(command, comments=True)
    assert sys.argv[0] == "diffmask", f"only diffmask commands are run: {command}"
    try:
        main()
    except SystemExit as done:
        assert not done.code, f"{command} ended with code {done.code}"
    finally:
        sys.argv = before
'''
REGISTRIES = (METHODS, METRICS, REMOVALS, DIVERGENCES, SPARSITIES, STUDIES, TASKS)


@pytest.fixture
def desk(monkeypatch, tmp_path) -> Iterator[ModuleType]:
    """An empty directory to work in, a module for the names a page makes, and tables that forget what it adds."""
    tables = [registry.table for registry in REGISTRIES] + [RECIPES]
    before = [dict(table) for table in tables]
    page = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", page)
    monkeypatch.chdir(tmp_path)
    yield page
    for table, old in zip(tables, before, strict=True):
        table.clear()
        table.update(old)


def script(page: Path) -> str:
    """Write the blocks of a page one after the other, as a person runs them who copies them."""
    parts = []
    for language, code in RUN.findall(page.read_text()):
        commands = [line for line in code.replace("\\\n", " ").splitlines() if line.strip()]
        parts.append(code if language == "python" else "\n".join(f"type_in({line!r})" for line in commands))
    return "\n".join([TYPE_IN, *parts])


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


@pytest.mark.parametrize("page", [page for page in PAGES if page not in TUTORIALS], ids=lambda page: page.stem)
def test_the_examples_of_the_docs_run(page, desk):
    exec(compile(script(page), str(page), "exec"), desk.__dict__)


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_the_tutorials_run_from_the_first_line_to_the_last(page, tmp_path):
    # As a person runs them: without the checker of shapes, which takes as long again.
    (tmp_path / "tutorial.py").write_text("import torch\ntorch.set_num_threads(1)\n" + script(page))
    command = [sys.executable, "-W", "error::ResourceWarning", "tutorial.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    wanted = {"text": "report.html", "vision": "counted.html"}[page.stem]
    assert (tmp_path / wanted).stat().st_size > 1000
    if page.stem == "vision":
        assert "exactly the red patches: 100%" in done.stdout and "exactly all others: 100%" in done.stdout


def test_every_page_is_in_the_navigation_of_the_site():
    navigation = (ROOT / "mkdocs.yml").read_text()
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if f" {page}\n" not in navigation] == []


def test_every_public_name_is_in_the_reference():
    import diffmask

    reference = (ROOT / "docs" / "reference" / "public.md").read_text()
    assert [name for name in diffmask.__all__ if f"::: diffmask.{name}\n" not in reference] == []


def test_every_room_is_on_the_map_and_in_the_reference():
    rooms = [path.parent.name for path in (ROOT / "src" / "diffmask").glob("*/__init__.py")]
    assert [room for room in rooms if f"`{room}/`" not in README] == []
    assert [room for room in rooms if not (ROOT / "docs" / "reference" / f"{room}.md").is_file()] == []
