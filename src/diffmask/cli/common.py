"""What the commands share: where they speak, how they read, draw, and show that they are still at it."""

from __future__ import annotations

import io
import json
import math
import os
import signal
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..errors import DataError, SettingError, StorageError

if TYPE_CHECKING:
    from ..training.fit import Fit

T = TypeVar("T")

BROKEN = 3  # the exit code when a margin was required and is broken
STOPS = (signal.SIGINT, signal.SIGTERM)
STOPPED = 130  # the exit code after Ctrl-C, as shells have it
EMBEDDED = "embedded"
PATIENCE = 2.0  # seconds a person waits without asking whether anything happens
say = Console()
complain = Console(stderr=True)


class Kind(StrEnum):
    """What a probe masks."""

    input = "input"
    hidden = "hidden"


def read_text(path: Path, what: str) -> str:
    """Read a text file; `what` says in an error which file to give."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise DataError(f"no file {path}: give the path of {what}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as text ({error}): give the path of {what}") from error


def read_depth(fitted: Fit, depth: str) -> int:
    """Turn a depth as it is typed, a number or a site's name, into an index."""
    from ..explaining.explain import check_depth

    try:
        return check_depth(fitted.probe, number_or_name(depth))
    except SettingError as error:
        raise typer.BadParameter(str(error), param_hint="--depth") from error


def number_or_name(typed: str) -> int | str:
    """Read what is typed as a number, which may be negative, or else as a name."""
    return int(typed) if typed.removeprefix("-").isdecimal() else typed


def check_place(
    output: Path | None, directory: bool = False, read: Iterable[Path] = (), option: str = "--output"
) -> None:
    """Refuse an output that cannot be written, or would take the place of what is read, before anything takes long."""
    if output is None:
        return
    if output.is_file() and any(os.path.isfile(source) and output.samefile(source) for source in read):
        raise StorageError(f"{output} is what is read, and would be lost: name another file with {option}")
    there = next(place for place in (output, *output.absolute().parents) if place.exists())
    if there == output and there.is_dir() and not directory:
        raise StorageError(f"{output} is a directory: name a file in it, or elsewhere, with {option}")
    if not there.is_dir() and (directory or there != output):
        raise StorageError(f"nothing can be put into {there}, which is a file: name another place with {option}")
    if not os.access(there, os.W_OK):
        raise StorageError(f"{output} cannot be written, as {there} is not yours to change: name another with {option}")


def check_ending(output: Path | None, holds: str, wrong: Collection[str], right: str) -> None:
    """Refuse a name whose ending promises something else than what is written, such as a table."""
    if output is not None and output.suffix.lower() in wrong:
        raise StorageError(f"{output} would hold {holds}, and its ending says otherwise: {right}")


def load_run(run: str = EMBEDDED, **settings: Any) -> Fit:
    """Load a saved probe and its model, saying so: most of the time goes into importing what it needs."""
    with complain.status("loading the model"):
        import_engines()
        from ..explaining.pretrained import from_pretrained

        settle_threads(run)
        return from_pretrained(run, **settings)


def import_engines() -> None:
    """Import what computes; Ctrl-C waits until that is done, as it leaves NumPy or torch half imported."""
    with waiting():
        import numpy  # noqa: F401
        import torch  # noqa: F401

        with suppress(ImportError):  # whoever needs it says how to get it
            import transformers  # noqa: F401


@contextmanager
def waiting() -> Iterator[None]:
    """Let Ctrl-C, or a scheduler's SIGTERM, wait for the end of the block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    heard = [number for number in STOPS if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt


def settle_threads(run: str) -> None:
    """Take one thread for the embedded model: in one so small, threads wait for each other longer than they work."""
    if run.partition(":")[0] == EMBEDDED:
        import torch

        torch.set_num_threads(1)


def usual_device() -> str:
    """Name the device to work on where none is named."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


@contextmanager
def stoppable(how_to_go_on: str) -> Iterator[None]:
    """Let Ctrl-C end a command with a sentence and its own exit code, not with a traceback."""
    try:
        yield
    except (KeyboardInterrupt, ImportError) as error:
        if not was_interrupted(error):
            raise
        complain.print(f"stopped: {how_to_go_on}", highlight=False, markup=False, soft_wrap=True)
        raise typer.Exit(STOPPED) from None


def was_interrupted(error: BaseException | None) -> bool:
    """Say whether Ctrl-C is behind an error: transformers makes one of its own out of it while it imports."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


@contextmanager
def aside(as_json: bool) -> Iterator[None]:
    """With --json, say everything else on standard error: standard output is for JSON alone."""
    before = say.stderr
    say.stderr = as_json or before
    try:
        yield
    finally:
        say.stderr = before


def say_json(value: Any) -> None:
    """Print plain data as one line of JSON."""
    typer.echo(json.dumps(plain(value), ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """Write what is infinite or not defined as null, as JSON needs it."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


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
