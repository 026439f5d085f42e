"""A room imports only from rooms before it; hooks, printing and heavy packages stay where they belong."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import diffmask

ROOT = Path(diffmask.__file__).parent

# Rooms of one line are siblings and do not know each other, except the single files at the start.
ORDER = [
    ["errors"],
    ["registry"],
    ["types"],
    ["settings"],
    ["storage"],
    ["pictures"],
    ["provenance"],
    ["explanation"],
    ["models", "tasks"],
    ["gates"],
    ["masking"],
    ["objective"],
    ["training"],
    ["explaining"],
    ["attribution"],
    ["evaluation", "attention"],
    ["report"],
    ["page"],
    ["bulk"],
    ["studies"],
    ["serve"],
    ["cli"],
]
PLACE = {room: place for place, rooms in enumerate(ORDER) for room in rooms}
DRAWN_FROM = {
    "errors",
    "types",
    "explanation",
    "registry",
    "settings",
    "storage",
    "pictures",
}  # saved results, no model
ALLOWED = {"report": DRAWN_FROM, "page": DRAWN_FROM | {"provenance", "report"}}
# An explanation shows itself: it names how, and whoever asks for a picture imports it then.
SHOWS_ITSELF = (Path("explanation.py"), {"report", "page"})
PRINTS = Path("report/show.py")  # `explanation.show()` is asked to

FILES = sorted(path.relative_to(ROOT) for path in ROOT.rglob("*.py") if path.parent != ROOT or path.stem in PLACE)
HOOKS = {"register_forward_hook", "register_forward_pre_hook"}
LATE = re.compile(r"diffmask\.(\w+)(\.\w+)*:\w+")  # an entry of a table, imported when asked for


def room_of(path: Path) -> str:
    return path.parts[0].removesuffix(".py")


def may_import(room: str, other: str) -> bool:
    if other == room:
        return True
    return other in ALLOWED[room] if room in ALLOWED else PLACE[other] < PLACE[room]


def modules_imported(path: Path, tree: ast.AST) -> Iterator[str]:
    """Yield the full names of all modules a file imports, however and wherever it does."""
    package = ("diffmask", *path.parts[:-1])
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, [base, node.module]))
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and LATE.fullmatch(node.value):
            yield node.value.replace(":", ".")


def rooms_imported(path: Path, tree: ast.AST) -> set[str]:
    return {name.split(".")[1] for name in modules_imported(path, tree) if name.startswith("diffmask.")}


def names_imported(path: Path, tree: ast.AST) -> set[str]:
    """Return the rooms of import statements alone, without the entries of tables."""
    bare = ast.Module([node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)], [])
    return rooms_imported(path, bare)


def touches_hooks(tree: ast.AST) -> bool:
    """Say whether code registers a forward hook or sets the forward of a module."""
    named = any(isinstance(node, ast.Attribute) and node.attr in HOOKS for node in ast.walk(tree))
    return named or any(
        isinstance(node, ast.Attribute) and node.attr == "forward" and isinstance(node.ctx, ast.Store | ast.Del)
        for node in ast.walk(tree)
    )


def prints(tree: ast.AST) -> bool:
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return any("print" in (getattr(call, "id", ""), getattr(call, "attr", "")) for call in calls)


def parse(path: Path) -> ast.AST:
    return ast.parse((ROOT / path).read_text())


each_file = pytest.mark.parametrize("path", FILES, ids=str)


@each_file
def test_every_room_has_a_place_in_the_order(path):
    assert room_of(path) in PLACE


@each_file
def test_a_room_imports_only_from_rooms_before_it(path):
    tree = parse(path)
    late = SHOWS_ITSELF[1] if path == SHOWS_ITSELF[0] and not names_imported(path, tree) & SHOWS_ITSELF[1] else set()
    wrong = {room for room in rooms_imported(path, tree) - late if not may_import(room_of(path), room)}
    assert not wrong, f"{path} imports from {wrong}"


@each_file
def test_only_sites_touches_hooks(path):
    assert path == Path("models/sites.py") or not touches_hooks(parse(path))


@each_file
def test_only_the_command_line_prints(path):
    assert room_of(path) == "cli" or path == PRINTS or not prints(parse(path))


@each_file
def test_the_core_does_without_plots_and_transformers(path):
    if room_of(path) in ("gates", "masking", "objective", "training"):
        packages = {name.split(".")[0] for name in modules_imported(path, parse(path))}
        assert not packages & {"matplotlib", "transformers"}


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("masking/mask.py", "from ..training.step import step"),
        ("masking/mask.py", "from .. import training"),
        ("masking/mask.py", "import diffmask.training.fit"),
        ("masking/mask.py", "def late():\n    from diffmask.training import fit"),
        ("objective/table.py", "TABLE = {'fit': 'diffmask.training.fit:fit'}"),
        ("models/adapter.py", "from ..tasks.task import Task"),
        ("tasks/task.py", "from ..models.adapter import Adapter"),
        ("report/html.py", "from ..models.adapter import Adapter"),
        ("types.py", "from .models.sites import Site"),
    ],
)
def test_an_import_from_a_later_room_would_be_seen(path, code):
    path = Path(path)
    assert not all(may_import(room_of(path), room) for room in rooms_imported(path, ast.parse(code)))


@pytest.mark.parametrize("code", ["m.register_forward_hook(f)", "m.forward = f", "del m.forward"])
def test_a_hook_would_be_seen(code):
    assert touches_hooks(ast.parse(code))


def test_calling_a_forward_is_no_hook():
    assert not touches_hooks(ast.parse("y = m.forward(x)"))
