"""`diffmask`: explain texts, compare methods, run a study, draw its pictures, fill tables, list what there is."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ..errors import DiffMaskError, UnknownNameError
from .common import complain, draw_pictures, read_text, say
from .compare import EXAMPLE as COMPARE_EXAMPLE
from .compare import compare
from .demo import EXAMPLE as DEMO_EXAMPLE
from .demo import demo
from .explain import EXAMPLE as EXPLAIN_EXAMPLE
from .explain import explain

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
app.command("explain", epilog=EXPLAIN_EXAMPLE)(explain)
app.command("compare", epilog=COMPARE_EXAMPLE)(compare)
app.command("demo", epilog=DEMO_EXAMPLE)(demo)


@app.callback()
def diffmask() -> None:
    """Faithful, verified explanations of neural networks by learned masks."""


@app.command(epilog="Example: diffmask study digits --seeds 2 --jobs 2 --output runs/digits.json")
def study(
    name: Annotated[str, typer.Argument(help="Which study; `diffmask list` names them.")],
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, each with its own trained model.")] = 20,
    jobs: Annotated[int, typer.Option(min=1, help="How many seeds run at the same time.")] = 1,
    output: Annotated[
        Path | None, typer.Option(help="The result file [default: results/STUDY.json, small runs/STUDY.json].")
    ] = None,
    small: Annotated[bool, typer.Option("--small", help="A short run for a demo; its figures mean little.")] = False,
    data: Annotated[Path | None, typer.Option(envvar="DIFFMASK_DATA", help="The directory of the data sets.")] = None,
    encoder: Annotated[Path | None, typer.Option(help="The pretrained model a study starts from.")] = None,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Use finished runs as they are, e.g. from another machine.")
    ] = False,
) -> None:
    """Run one of the papers' experiments and write its result file and pictures. Stopped, it goes on where it was."""
    from ..studies import STUDIES
    from ..studies.setup import Setup

    path = output or Path("runs" if small else "results") / f"{name.replace('-', '_')}.json"
    given = {"--data": data, "--encoder": encoder}
    command = f"diffmask study {name} --seeds {seeds} --jobs {jobs} --output {path}"
    command += " --small" * small + " --take-over" * take_over
    command += "".join(f" {option} {value}" for option, value in given.items() if value is not None)
    setup, result = Setup(seeds, path, jobs, small, command, data, encoder, take_over), None
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=complain, transient=True) as progress:
        task = progress.add_task(name, total=seeds)
        for news in STUDIES.get(name)(setup):
            if isinstance(news, int):
                progress.update(task, total=news)
            elif isinstance(news, str):
                progress.advance(task)
                progress.console.print(news, highlight=False)
            else:
                result = news
    assert result is not None  # every study ends with its result
    for key, value in result["summary"].items():
        say.print(f"{key:>28}  {value:.4g}" if isinstance(value, float) else f"{key:>28}  {value}", highlight=False)
    say.print(f"wrote {path}", highlight=False)
    draw_pictures(path)


@app.command(epilog="Example: diffmask draw results/digits.json")
def draw(
    result: Annotated[Path, typer.Argument(help="A result file.")],
    to: Annotated[Path | None, typer.Option(help="Where the pictures go [default: beside the file].")] = None,
) -> None:
    """Draw a study's pictures from its result file."""
    draw_pictures(result, to)


@app.command(epilog="Example: diffmask tables README.md")
def tables(
    files: Annotated[list[Path], typer.Argument(help="Markdown files with table slots.")],
    check: Annotated[bool, typer.Option("--check", help="Change nothing; fail if a table is out of date.")] = False,
) -> None:
    """Fill the tables of Markdown files from the result files they name."""
    from ..report.fill import fill
    from ..storage import write_file

    stale = []
    for path in files:
        text = read_text(path, "a Markdown file")
        if (filled := fill(text, path.parent)) != text:
            stale.append(str(path))
            if not check:
                write_file(path, filled.encode())
    if stale and check:
        raise DiffMaskError(
            f"{', '.join(stale)}: tables differ from the result files; run `diffmask tables {stale[0]}`"
        )


@app.command("list", epilog="Example: diffmask list")
def list_names() -> None:
    """List the methods, metrics, studies, recipes and all else that has a name."""
    from ..attribution import METHODS
    from ..evaluation import METRICS, REMOVALS
    from ..objective.divergence import DIVERGENCES
    from ..objective.sparsity import SPARSITIES
    from ..studies import STUDIES
    from ..training.config import RECIPES

    for registry in (STUDIES, METHODS, METRICS, REMOVALS, DIVERGENCES, SPARSITIES):
        say.print(f"{registry.kind}: {', '.join(registry.names)}", highlight=False, soft_wrap=True)
    say.print(f"recipe: {', '.join(RECIPES)}", highlight=False, soft_wrap=True)


def main() -> None:
    """Run the command line: one sentence and an exit code instead of a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that has no ✓ shows ? instead of failing
    try:
        app(standalone_mode=True)
    except UnknownNameError as error:
        _fail(error, 2)
    except DiffMaskError as error:
        _fail(error, 1)


def _fail(error: Exception, code: int) -> None:
    complain.print(f"diffmask: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
    sys.exit(code)
