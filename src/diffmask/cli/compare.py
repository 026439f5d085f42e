"""`diffmask compare`: attribution methods side by side on the same texts, judged by the same metrics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from .common import EMBEDDED, aside, check_place, complain, load_run, plain, read_depth, say, stoppable, usual_device
from .inputs import Inputs
from .options import Depth, Device, ImageColumn, ModelPlace, PairColumn, RunName, Source, Strict, TextColumn

EXAMPLE = "Example: diffmask compare --input texts.txt --methods probe,gradient,random --metrics sufficiency,srg"
METHODS = "probe,integrated-gradients,leave-one-out,attention,random"
METRICS = "sufficiency,comprehensiveness,srg"


class Form(StrEnum):
    """How the table is written."""

    table = "table"
    csv = "csv"
    json = "json"
    latex = "latex"
    markdown = "markdown"


def compare(
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="Texts to compare on, or paths of images.")
    ] = None,
    file: Source = None,
    text_column: TextColumn = "text",
    pair_column: PairColumn = "",
    image_column: ImageColumn = "image",
    run: RunName = EMBEDDED,
    model: ModelPlace = None,
    strict: Strict = False,
    device: Device = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Examples judged at once.")] = 16,
    methods: Annotated[str, typer.Option(help="Methods, with commas; `diffmask list` names them.")] = METHODS,
    metrics: Annotated[str, typer.Option(help="Metrics, with commas; `diffmask list` names them.")] = METRICS,
    removal: Annotated[str, typer.Option(help="What stands in for a removed unit.")] = "baseline",
    depth: Depth = "-1",
    seed: Annotated[int, typer.Option(help="Of the bootstrap intervals.")] = 0,
    form: Annotated[Form, typer.Option("--format", help="How the table is written.")] = Form.table,
    output: Annotated[Path | None, typer.Option(help="Write the table to this file.")] = None,
    resume: Annotated[
        Path | None, typer.Option(help="A directory that keeps what is finished, to go on after a stop.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Compare attribution methods on a model with a fitted probe, with intervals and what each method costs."""
    inputs = Inputs(tuple(texts or ()), file, text_column, pair_column, image_column)
    inputs.check()
    check_place(output, read=inputs.paths)
    check_place(resume, directory=True, option="--resume")
    kept = f"the same command goes on from {resume}" if resume else "with --resume DIRECTORY, finished methods are kept"
    with stoppable(kept):
        fitted = load_run(run, model=model, strict=strict, device=device or usual_device())
        from ..evaluation.compare import compare as measure

        found = measure(
            fitted,
            inputs.read(fitted.task),
            _names(methods),
            _names(metrics),
            removal=removal,
            depth=read_depth(fitted, depth),
            batch_size=batch_size,
            seed=seed,
            directory=resume,
            progress=complain.is_terminal,
        )
    with aside(as_json):
        _write(found.record(), Form.json if as_json else form, output)


def _names(given: str) -> list[str]:
    return [name.strip() for name in given.split(",") if name.strip()]


def _write(record: Mapping[str, Any], form: Form, output: Path | None) -> None:
    from ..report.methods import notes, table
    from ..storage import write_file

    if output is not None:
        write_file(output, (_text(record, form if form != Form.table else Form.markdown) + "\n").encode())
        say.print(f"wrote {output}", markup=False, highlight=False, soft_wrap=True)
    elif form == Form.table:
        say.print(table(record))
        for note in notes(record):
            say.print(note, markup=False, highlight=False)
    else:
        typer.echo(_text(record, form))


def _text(record: Mapping[str, Any], form: Form) -> str:
    from ..report.methods import as_csv, latex, markdown

    if form == Form.json:
        return json.dumps(plain(record), indent=1, ensure_ascii=False, allow_nan=False)
    return {Form.csv: as_csv, Form.latex: latex, Form.markdown: markdown}[form](record).rstrip("\n")
