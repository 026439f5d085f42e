"""`diffmask demo`: sentences explained, checked and compared with rivals, in a minute or so and without a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from .common import aside, check_place, draw_pictures, load_run, say, say_json, stoppable, watched
from .report import say_report, write_report

EXAMPLE = "Example: diffmask demo --output runs/demo"
TITLE = "What a sentiment model uses of twenty sentences"


def demo(
    output: Annotated[Path, typer.Option(help="The directory for demo.json, the pictures and the report.")] = Path(
        "runs/demo"
    ),
    sentences: Annotated[int, typer.Option(min=1, max=20, help="How many sentences, from the first on.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON object.")] = False,
) -> None:
    """Explain twenty sentences with the embedded model, compare with rivals, and end in a report for a browser."""
    check_place(output, directory=True)
    with stoppable("nothing was written; the same command begins again"), aside(as_json):
        result = _demo(output, sentences)
    if as_json:
        say_json({"output": str(output), "summary": result["summary"]})


def _demo(output: Path, sentences: int) -> Mapping[str, Any]:
    fitted = load_run()
    from ..page.sources import read_sources
    from ..studies.demo import SENTENCES, compare_all, write_demo

    chosen = SENTENCES[:sentences]
    found = list(watched(compare_all(fitted, chosen), "demo", len(chosen)))
    path = output / "demo.json"
    result = write_demo(path, found, fitted, f"diffmask demo --output {output} --sentences {sentences}")
    _show(result)
    say.print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)
    draw_pictures(path)
    say_report(write_report(read_sources([path]), output / "report.html", TITLE, result["command"]))
    return result


def _show(result: Mapping[str, Any]) -> None:
    from ..report.comparison import comparison, sentences, verdict

    for shown in (sentences(result), comparison(result)):
        say.print(shown)
    for line in verdict(result):
        say.print(line, markup=False, highlight=False)
