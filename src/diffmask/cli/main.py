"""`diffmask`: fit, explain, compare, run a study, draw its pictures, fill tables, list what there is."""

from __future__ import annotations

import io
import json
import signal
import sys
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from ..errors import DiffMaskError, SettingError, UnknownNameError
from ..tasks.few import FirstFew
from .common import complain, draw_pictures, read_text, say
from .compare import EXAMPLE as COMPARE_EXAMPLE
from .compare import compare
from .demo import EXAMPLE as DEMO_EXAMPLE
from .demo import demo
from .explain import EXAMPLE as EXPLAIN_EXAMPLE
from .explain import explain
from .fit import EXAMPLE as FIT_EXAMPLE
from .fit import fit
from .report import EXAMPLE as REPORT_EXAMPLE
from .report import report
from .serve import EXAMPLE as SERVE_EXAMPLE
from .serve import serve
from .study import EXAMPLE as STUDY_EXAMPLE
from .study import study

USAGE, FAILURE = 2, 1  # exit codes; common.py has those of a broken margin and of Ctrl-C
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
app.command("fit", epilog=FIT_EXAMPLE)(fit)
app.command("explain", epilog=EXPLAIN_EXAMPLE)(explain)
app.command("compare", epilog=COMPARE_EXAMPLE)(compare)
app.command("demo", epilog=DEMO_EXAMPLE)(demo)
app.command("report", epilog=REPORT_EXAMPLE)(report)
app.command("serve", epilog=SERVE_EXAMPLE)(serve)
app.command("study", epilog=STUDY_EXAMPLE)(study)


def _version(asked: bool) -> bool:
    if asked:
        typer.echo(f"diffmask {metadata.version('diffmask')}")
        raise typer.Exit
    return asked


@app.callback()
def diffmask(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    """Faithful, verified explanations of neural networks by learned masks."""


@app.command(epilog="Example: diffmask draw results/digits.json")
def draw(
    result: Annotated[Path, typer.Argument(metavar="RESULT", help="A result file.")],
    to: Annotated[Path | None, typer.Option(help="Where the pictures go [default: beside the file].")] = None,
) -> None:
    """Draw a study's pictures from its result file."""
    draw_pictures(result, to)


@app.command(epilog="Example: diffmask tables README.md")
def tables(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Markdown files with table slots.")],
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
def list_names(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object: names by kind.")] = False,
) -> None:
    """List the methods, metrics, studies, recipes and all else that has a name."""
    from ..attribution import METHODS
    from ..evaluation import METRICS, REMOVALS
    from ..objective.divergence import DIVERGENCES
    from ..objective.sparsity import SPARSITIES
    from ..studies import STUDIES
    from ..tasks.described import TASKS
    from ..training.config import RECIPES

    registries = (STUDIES, METHODS, METRICS, REMOVALS, DIVERGENCES, SPARSITIES, TASKS)
    names = {registry.kind: list(registry.names) for registry in registries} | {"recipe": list(RECIPES)}
    if as_json:
        typer.echo(json.dumps(names))
        return
    for kind, known in names.items():
        say.print(f"{kind}: {', '.join(known)}", highlight=False, soft_wrap=True)


def main() -> None:
    """Run the command line: one sentence and an exit code instead of a traceback."""
    # What a scheduler sends stops a command as Ctrl-C does: what is finished is kept, and no worker is left behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that has no ✓ shows ? instead of failing
    try:
        with FirstFew():
            app(standalone_mode=True)
    except (UnknownNameError, SettingError) as error:
        _fail(error, USAGE)
    except DiffMaskError as error:
        _fail(error, FAILURE)


def _fail(error: Exception, code: int) -> None:
    complain.print(f"diffmask: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
    sys.exit(code)
