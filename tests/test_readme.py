"""What the README and the documentation show runs: Python and `diffmask` commands, page by page, in an empty directory."""

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from diffmask.attribution import METHODS
from diffmask.cli.main import main
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
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if RUN.search(path.read_text()))
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


def run(page: Path, desk: ModuleType, monkeypatch) -> None:
    """Run the blocks of a page one after the other, as a person does who copies them."""
    for language, code in RUN.findall(page.read_text()):
        if language == "python":
            exec(compile(code, str(page), "exec"), desk.__dict__)
        else:
            for command in code.replace("\\\n", " ").splitlines():
                type_in(command, monkeypatch)


def type_in(command: str, monkeypatch) -> None:
    """Run a `diffmask` command in this process, where everything is imported already."""
    words = shlex.split(command, comments=True)
    if not words:
        return
    assert words[0] == "diffmask", f"only diffmask commands are run: {command}"
    with monkeypatch.context() as patch, pytest.raises(SystemExit) as done:
        patch.setattr(sys, "argv", words)
        main()
    assert not done.value.code, f"{command} ended with code {done.value.code}"


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
def test_the_examples_of_the_docs_run(page, desk, monkeypatch):
    run(page, desk, monkeypatch)


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
