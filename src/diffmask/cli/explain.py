"""`diffmask explain`: what a model uses of an input, checked by running it on that alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .bulk import Shards
from .common import (
    BROKEN,
    EMBEDDED,
    Kind,
    check_ending,
    check_place,
    complain,
    load_run,
    read_depth,
    say,
    stoppable,
    usual_device,
    watched,
)
from .inputs import Inputs, name_of
from .options import Depth, Device, ImageColumn, ModelPlace, PairColumn, RunName, Source, Strict, TextColumn

if TYPE_CHECKING:
    from ..explaining.explainer import Explainer
    from ..explanation import Explanation

TABLES_AND_PAGES = (".csv", ".tsv", ".parquet", ".xlsx", ".html", ".md")
EXAMPLE = 'Example: diffmask explain "A fast, funny, highly enjoyable movie."'


def explain(
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="Texts to explain, or paths of images.")
    ] = None,
    run: RunName = EMBEDDED,
    model: ModelPlace = None,
    file: Source = None,
    text_column: TextColumn = "text",
    pair_column: PairColumn = "",
    image_column: ImageColumn = "image",
    kind: Annotated[Kind | None, typer.Option(help="Of the embedded probes: masks the input or hidden states.")] = None,
    depth: Depth = "-1",
    target: Annotated[
        str, typer.Option(help="What must be predicted: a label, an index, a span 3:5, a step.")
    ] = "predicted",
    certify: Annotated[bool, typer.Option("--certify", help="Add units back until the margin holds.")] = False,
    strict: Strict = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Examples explained at once.")] = 64,
    device: Device = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    output: Annotated[
        Path | None, typer.Option(help="Write one JSON object a line to this file, or Parquet shards to a directory.")
    ] = None,
    engine: Annotated[str | None, typer.Option(help="Who makes shards: local (this process) or ray.")] = None,
    address: Annotated[
        str | None, typer.Option(help="The Ray cluster [default: RAY_ADDRESS, or one started here].")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Of Ray [default: one for each GPU, or CPU].")] = None,
    id_column: Annotated[str, typer.Option(help="A column copied into the shards, to know rows by.")] = "",
    chunk_size: Annotated[int | None, typer.Option(min=1, help="Rows of a shard [default: 512].")] = None,
    require_margin: Annotated[
        bool, typer.Option("--require-margin", help=f"Exit with code {BROKEN} if an explanation breaks its margin.")
    ] = False,
) -> None:
    """Explain what a model uses of each input, and check it by running the model on that alone."""
    inputs = Inputs(tuple(texts or ()), file, text_column, pair_column, image_column)
    inputs.check()
    shards = Shards(inputs, output, engine, address, workers, id_column, chunk_size or 0)
    if shards.wanted:
        saved = {"run": _named(run, kind), "model": model, "strict": strict, "device": device}
        shards.make(saved, depth, certify, batch_size, target, as_json, require_margin)
        return
    check_place(output, read=inputs.paths)
    check_ending(output, "JSON lines", TABLES_AND_PAGES, "write a .jsonl file")
    with stoppable("nothing was written; the same command begins again"):
        fitted = load_run(_named(run, kind), model=model, strict=strict, device=device or usual_device())
        given = inputs.read(fitted.task)
        explainer = _explainer(fitted, read_depth(fitted, depth), certify, batch_size)
        found = _explained(explainer, inputs, given, target)
    _deliver(found, [name_of(example) for example in given], as_json, output)
    _count_cut(found)
    if require_margin:
        _require(found)


def _named(run: str, kind: Kind | None) -> str:
    if kind is None:
        return run
    if run != EMBEDDED:
        raise typer.BadParameter(f"{run} masks what it was fitted to mask: leave it out", param_hint="--kind")
    return f"{EMBEDDED}:{kind.value}"


def _explainer(fitted: Any, depth: int, certified: bool, batch_size: int) -> Explainer:
    from ..explaining.explainer import Explainer

    return Explainer(fitted, depth, certified, batch_size)


def _explained(explainer: Explainer, inputs: Inputs, examples: Sequence[Any], target: str) -> list[Explanation]:
    """Explain batch by batch, so that a bar can move."""
    from ..explaining.target import check_targets, parse

    size, asked = explainer.batch_size, parse(target)
    found: list[Explanation] = []
    starts = range(0, len(examples), size)
    for start in watched(starts, "explain", len(starts)):
        with inputs.named(start):
            batch = explainer(examples[start : start + size])
        check_targets(batch, asked, first=start + 1)
        found += batch
    return found


def _deliver(found: Sequence[Explanation], names: Sequence[str], as_json: bool, output: Path | None) -> None:
    if as_json:
        typer.echo(_lines(found, names), nl=False)
    elif output is None:
        _show(found, names)
    if output is not None:
        _write(output, _lines(found, names), len(found), quiet=as_json)


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


def _count_cut(found: Sequence[Explanation]) -> None:
    if cut := sum("cut" in explanation.info for explanation in found):
        said = f"diffmask: {cut} of {len(found)} texts were longer than the model takes: what was cut is not explained"
        complain.print(said, style="yellow", highlight=False, soft_wrap=True)


def _require(found: Sequence[Explanation]) -> None:
    if not all(explanation.verified for explanation in found):
        complain.print(f"diffmask: {_holding(found)}; --certify repairs the others", style="red", highlight=False)
        raise typer.Exit(BROKEN)


def _holding(found: Sequence[Explanation]) -> str:
    return f"{sum(explanation.verified for explanation in found)} of {len(found)} explanations hold their margin"
