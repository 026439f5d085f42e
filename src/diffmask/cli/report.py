"""`diffmask report`: saved explanations and comparisons as one HTML file that opens by double click."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .common import check_ending, check_place, complain, say, stoppable

if TYPE_CHECKING:
    from ..page.sources import Sources

EXAMPLE = "Example: diffmask explain --input texts.txt --output runs/texts.jsonl && diffmask report runs/texts.jsonl"
LARGE = 50_000_000  # bytes a browser takes noticeably long to open


def report(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE",
            help="Explanations (JSONL, safetensors, Parquet), comparisons (JSON), or directories of them.",
        ),
    ],
    output: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="What stands on top [default: the names of the sources].")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
) -> None:
    """Make one self-contained HTML file from saved explanations and comparisons: no network, search, depth slider."""
    from ..page.sources import read_sources

    check_place(output, read=sources)
    check_ending(output, "a page", (".json", ".jsonl", ".parquet", ".csv", ".md"), "write an .html file")
    with stoppable("nothing was written; the same command begins again"):
        found = read_sources(sources)
        named = title or ", ".join(dict.fromkeys(source.stem or source.name for source in sources))
        summary = write_report(found, output, named, _command(sources, output, title))
    if as_json:
        typer.echo(json.dumps(summary))
    else:
        say_report(summary)


def write_report(found: Sources, output: Path, title: str, command: str) -> dict[str, Any]:
    """Write a report, and return what is in it."""
    from ..page.html import page_html
    from ..provenance import versions
    from ..storage import write_file

    made = {
        "command": command,
        **{f"page by {name}": value for name, value in versions().items() if name == "diffmask"},
    }
    content = page_html(found.entries, title=title, comparisons=found.comparisons, made=made).encode()
    write_file(output, content)
    checked = [each["verification"] for each in found.entries if each["verification"]]
    return {
        "output": str(output),
        "bytes": len(content),
        "explanations": len(found.entries),
        "verified": len(checked),
        "within_margin": sum(bool(each["within_margin"]) for each in checked),
        "comparisons": list(found.comparisons),
        "left_out": found.left_out,
    }


def say_report(summary: dict[str, Any]) -> None:
    """Say where the report is and what is in it."""
    tables = f", compared: {', '.join(summary['comparisons'])}" if summary["comparisons"] else ""
    holding = f"{summary['within_margin']} of {summary['verified']} verified hold their margin"
    where = Path(summary["output"]).resolve().as_uri()
    errors = f", {summary['left_out']} rows with an error left out" if summary["left_out"] else ""
    text = f"report: {summary['explanations']} explanations ({holding}){tables}{errors}\nopen {where}"
    say.print(text, markup=False, highlight=False, soft_wrap=True)
    if summary["bytes"] > LARGE:
        complain.print(
            f"the report has {summary['bytes'] / 1e6:.0f} MB and opens slowly: give fewer explanations", highlight=False
        )


def _command(sources: Sequence[Path], output: Path, title: str | None) -> str:
    named = f" --title {title!r}" if title else ""
    return f"diffmask report {' '.join(map(str, sources))} --output {output}{named}"
