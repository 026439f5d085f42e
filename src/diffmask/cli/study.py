"""`diffmask study`: one of the papers' experiments, with its result file and its pictures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from .common import aside, check_place, complain, draw_pictures, say, say_json, stoppable

if TYPE_CHECKING:
    from ..studies.setup import Setup

EXAMPLE = "Example: diffmask study digits --seeds 2 --jobs 2 --output runs/digits.json"


def study(
    name: Annotated[str, typer.Argument(metavar="STUDY", help="Which study; `diffmask list` names them.")],
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, each with its own trained model.")] = 20,
    jobs: Annotated[
        int,
        typer.Option(min=0, help="How many seeds run at the same time; 0 runs nothing, and sums up what is finished."),
    ] = 1,
    output: Annotated[
        Path | None, typer.Option(help="The result file [default: results/STUDY.json, small runs/STUDY.json].")
    ] = None,
    small: Annotated[bool, typer.Option("--small", help="A short run for a demo; its figures mean little.")] = False,
    data: Annotated[Path | None, typer.Option(envvar="DIFFMASK_DATA", help="The directory of the data sets.")] = None,
    encoder: Annotated[Path | None, typer.Option(help="The pretrained model a study starts from.")] = None,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Use finished runs as they are, e.g. from another machine.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON object.")] = False,
) -> None:
    """Run one of the papers' experiments and write its result file and pictures. Stopped, it goes on where it was."""
    from ..studies.setup import Setup

    path = output or Path("runs" if small else "results") / f"{name.replace('-', '_')}.json"
    check_place(path)
    given = {"--data": data, "--encoder": encoder}
    command = f"diffmask study {name} --seeds {seeds} --jobs {jobs} --output {path}"
    command += " --small" * small + " --take-over" * take_over
    command += "".join(f" {option} {value}" for option, value in given.items() if value is not None)
    with stoppable("finished seeds are kept; the same command goes on with the others"), aside(as_json):
        result = _run(name, Setup(seeds, path, jobs, small, command, data, encoder, take_over), seeds)
        for key, value in result["summary"].items():
            said = f"{value:.4g}" if isinstance(value, float) else str(value)
            say.print(f"{key:>28}  {said}", highlight=False)
        say.print(f"wrote {path}", highlight=False)
        draw_pictures(path)
    if as_json:
        say_json({"study": name, "output": str(path), "summary": result["summary"]})


def _run(name: str, setup: Setup, seeds: int) -> Mapping[str, Any]:
    """Run a study to its end, showing its news as they come."""
    from ..studies import STUDIES

    result, run = None, STUDIES.get(name)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=complain, transient=True) as progress:
        task = progress.add_task(name, total=seeds)
        for news in run(setup):
            if isinstance(news, int):
                progress.update(task, total=news)
            elif isinstance(news, str):
                progress.advance(task)
                progress.console.print(news, highlight=False)
            else:
                result = news
    assert result is not None  # every study ends with its result
    return result
