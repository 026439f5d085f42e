"""What the commands share: where they speak, how they read, draw, and show that they are still at it."""

from __future__ import annotations

import io
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..errors import DataError, SettingError

if TYPE_CHECKING:
    from ..training.fit import Fit

T = TypeVar("T")

PATIENCE = 2.0  # seconds a person waits without asking whether anything happens
say = Console()
complain = Console(stderr=True)


def read_text(path: Path, what: str) -> str:
    """Read a text file; `what` says in an error which file to give."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise DataError(f"no file {path}: give the path of {what}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as text ({error}): give the path of {what}") from error


def read_texts(texts: Sequence[str], file: Path | None) -> list[str]:
    """Return the texts that were given, and those of a file with one on each line."""
    if not texts and file is None:
        raise typer.BadParameter("give a text, or a file with one on each line", param_hint="TEXT")
    if not all(text.strip() for text in texts):
        raise typer.BadParameter("a text is empty: there is nothing to explain in it", param_hint="TEXT")
    return [*texts, *([] if file is None else _read_lines(file))]


def _read_lines(file: Path) -> list[str]:
    lines = [line.strip() for line in read_text(file, "a file with one text on each line").split("\n")]
    if not any(lines):
        raise DataError(f"{file} holds no text: write one on each line")
    return [line for line in lines if line]


def read_depth(fitted: Fit, depth: str) -> int:
    """Turn a depth as it is typed, a number or a site's name, into an index."""
    from ..explaining.explain import check_depth

    number = depth.removeprefix("-").isdecimal()
    try:
        return check_depth(fitted.probe, int(depth) if number else depth)
    except SettingError as error:
        raise typer.BadParameter(str(error), param_hint="--depth") from error


def load_model(kind: Literal["input", "hidden"] = "input", strict: bool = False) -> Fit:
    """Load the embedded model, saying so: most of the time goes into importing what it needs."""
    with complain.status("loading the model"):
        import torch

        from ..explaining.embedded import load_embedded

        torch.set_num_threads(1)  # for a model this small, threads wait for each other longer than they work
        return load_embedded(kind, strict=strict)


def draw_pictures(result: Path, to: Path | None = None) -> None:
    """Draw a result file's pictures beside it, or elsewhere."""
    from ..report import PICTURES
    from ..report.fill import read_result
    from ..storage import write_file

    content = read_result(result)
    for name, figure in PICTURES.get(str(content["study"]))(content).items():
        path, image = (to or result.parent) / f"{result.stem}-{name}.png", io.BytesIO()
        figure.savefig(image, format="png", metadata={"Software": None})
        write_file(path, image.getvalue())
        say.print(f"drew {path}", highlight=False, markup=False, soft_wrap=True)


def watched(items: Iterable[T], title: str, total: int) -> Iterator[T]:
    """Pass items on, with a progress bar once they have taken two seconds."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    progress = Progress(*columns, console=complain, transient=True, disable=not complain.is_terminal)
    task, began = progress.add_task(title, total=total), time.monotonic()
    try:
        for item in items:
            yield item
            progress.advance(task)
            if time.monotonic() - began > PATIENCE:
                progress.start()
    finally:
        progress.stop()
