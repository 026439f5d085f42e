"""`diffmask explain`: what the embedded sentiment model reads in a text, checked by running it on that alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .common import complain, load_model, read_depth, read_texts, say, watched

if TYPE_CHECKING:
    from ..explanation import Explanation
    from ..training.fit import Fit

EXAMPLE = 'Example: diffmask explain "A fast, funny, highly enjoyable movie."'
BROKEN = 3  # the exit code when a margin was required and is broken
BATCH = 64  # texts explained at once, and between two moves of the progress bar


class Kind(StrEnum):
    """What a probe masks."""

    input = "input"
    hidden = "hidden"


def explain(
    texts: Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="Texts to explain.")] = None,
    file: Annotated[Path | None, typer.Option(help="A file with one text on each line.")] = None,
    kind: Annotated[Kind, typer.Option(help="Mask the input, or the hidden states of a depth.")] = Kind.input,
    depth: Annotated[str, typer.Option(help="A number, which may count from the end, or a site's name.")] = "-1",
    certify: Annotated[bool, typer.Option("--certify", help="Add units back until the margin holds.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a text that is too long, not cut it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    output: Annotated[Path | None, typer.Option(help="Write one JSON object a line to this file.")] = None,
    require_margin: Annotated[
        bool, typer.Option("--require-margin", help=f"Exit with code {BROKEN} if an explanation breaks its margin.")
    ] = False,
) -> None:
    """Explain what the embedded sentiment model uses of each text, and check it by running the model on that alone."""
    given = read_texts(texts or [], file)
    fitted = load_model(kind.value, strict)
    found = _explained(fitted, given, read_depth(fitted, depth), certify)
    if as_json:
        typer.echo(_lines(found, given), nl=False)
    elif output is None:
        _show(found, given)
    if output is not None:
        _write(output, _lines(found, given), len(found), quiet=as_json)
    if require_margin:
        _require(found)


def _explained(fitted: Fit, texts: Sequence[str], depth: int, certified: bool) -> list[Explanation]:
    from ..explaining.certify import certify
    from ..explaining.explain import explain

    do = certify if certified else explain
    batches = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
    return [found for batch in watched(batches, "explain", len(batches)) for found in do(fitted, batch, depth=depth)]


def _lines(found: Sequence[Explanation], texts: Sequence[str]) -> str:
    from ..report.plain import record

    records = (record(explanation, text) for explanation, text in zip(found, texts, strict=True))
    return "".join(json.dumps(each, allow_nan=False) + "\n" for each in records)


def _show(found: Sequence[Explanation], texts: Sequence[str]) -> None:
    from ..report.plain import printable
    from ..report.terminal import View, legend

    for explanation, text in zip(found, texts, strict=True):
        say.print(printable(text), style="bold underline", markup=False, highlight=False)
        say.print(View(explanation))
        say.print()
    say.print(legend())
    if len(found) > 1:
        say.print(_holding(found), highlight=False)


def _write(path: Path, lines: str, count: int, quiet: bool) -> None:
    from ..storage import write_file

    write_file(path, lines.encode())
    if not quiet:  # with --json, standard output is for JSON alone
        say.print(f"wrote {count} to {path}", markup=False, highlight=False, soft_wrap=True)


def _require(found: Sequence[Explanation]) -> None:
    if not all(explanation.verified for explanation in found):
        complain.print(f"diffmask: {_holding(found)}; --certify repairs the others", style="red", highlight=False)
        raise typer.Exit(BROKEN)


def _holding(found: Sequence[Explanation]) -> str:
    return f"{sum(explanation.verified for explanation in found)} of {len(found)} explanations hold their margin"
