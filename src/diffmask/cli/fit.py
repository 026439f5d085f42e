"""`diffmask fit`: a probe for a model of one's own, from a table of texts or a folder of pictures."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .common import BROKEN, Kind, check_place, complain, import_engines, say, stoppable

if TYPE_CHECKING:
    from ..models.hub import Place
    from ..training.fit import Fit
    from .run_config import RunConfig

EXAMPLE = (
    "Example: diffmask fit ./my-classifier --data train.csv --text-column text --margin 0.1 --output runs/mine "
    "&& diffmask explain --run runs/mine --input test.csv"
)


def fit(
    model: Annotated[str | None, typer.Argument(metavar="MODEL", help="A directory, or a name on the Hub.")] = None,
    output: Annotated[Path, typer.Option(help="The directory of the run.")] = Path("runs/fit"),
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings; options go before it.")] = None,
    data: Annotated[
        str | None, typer.Option(help="A table, a folder of pictures, or a data set of the Hub, NAME[:CONFIG][@SPLIT].")
    ] = None,
    validation: Annotated[str | None, typer.Option(help="The same, to validate on [default: a part of it].")] = None,
    text_column: Annotated[str | None, typer.Option(help="The column of the text [default: text].")] = None,
    pair_column: Annotated[str | None, typer.Option(help="The column of the second text of a pair.")] = None,
    image_column: Annotated[str | None, typer.Option(help="The column of images or paths [default: image].")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Use at most so many examples.")] = None,
    task: Annotated[
        str | None,
        typer.Option(
            help="classification, pair, multi-label, regression, token, span, next-token or image "
            "[default: what the model was trained for]."
        ),
    ] = None,
    unit: Annotated[str | None, typer.Option(help="token, word or sentence [default: token].")] = None,
    ask: Annotated[str | None, typer.Option(help="The position gates read too: first, last or nowhere.")] = None,
    max_length: Annotated[int | None, typer.Option(min=1, help="Tokens a text is cut to.")] = None,
    tokenizer: Annotated[str | None, typer.Option(help="Where it is, if not beside the model.")] = None,
    revision: Annotated[str | None, typer.Option(help="Of a model on the Hub.")] = None,
    dtype: Annotated[str | None, typer.Option(help="float32, bfloat16 or float16 [default: as saved].")] = None,
    recipe: Annotated[str | None, typer.Option(help="The settings to begin from; `diffmask list` names them.")] = None,
    kind: Annotated[Kind | None, typer.Option(help="Mask the input, or each hidden state.")] = None,
    margin: Annotated[float | None, typer.Option(help="The largest divergence allowed, in nats.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Optimiser steps, shared by all depths.")] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Examples per step.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Of the gates.")] = None,
    seed: Annotated[int | None, typer.Option(help="Every draw depends on it and on the step alone.")] = None,
    members: Annotated[
        int | None, typer.Option(min=1, help="Probes fitted from as many seeds and averaged: seeds then agree better.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")] = False,
    require_margin: Annotated[
        bool, typer.Option("--require-margin", help=f"Exit with code {BROKEN} if a depth breaks the margin.")
    ] = False,
) -> None:
    """Fit a probe to a model, and save it with all its settings. Stopped, the same command goes on where it was."""
    options = {
        "model": model,
        "tokenizer": tokenizer,
        "revision": revision,
        "dtype": dtype,
        "recipe": recipe,
        "data": {
            "train": data,
            "validation": validation,
            "text_column": text_column,
            "pair_column": pair_column,
            "image_column": image_column,
            "limit": limit,
        },
        "task": {"kind": task, "unit": unit, "ask": ask, "max_length": max_length},
        "fit": {
            "kind": None if kind is None else kind.value,
            "margin": margin,
            "steps": steps,
            "batch_size": batch_size,
            "learning_rate": learning_rate,
            "seed": seed,
            "members": members,
        },
    }
    with stoppable(f"nothing was fitted yet; the same command begins again, into {output}"):
        check_place(output, directory=True)
        settings, place = _settings(options, config)
        fitted = _fit(settings, place, output)
    if _speaks():
        _show(fitted, output, as_json, _example(settings))
    if require_margin and not fitted.feasible:
        complain.print("diffmask: a depth breaks the margin; train longer, with --steps", style="red", highlight=False)
        raise typer.Exit(BROKEN)


def _settings(options: Mapping[str, Any], config: Path | None) -> tuple[RunConfig, Place]:
    """Lay the options that were given over the file."""
    from ..settings import merge
    from .run_config import read_config, resolve

    return resolve(merge(read_config(config), _given(options)), str(config or "options"))


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: _given(value) if isinstance(value, dict) else value for name, value in options.items()}
    return {name: value for name, value in plain.items() if value is not None and value != {}}


def _fit(settings: RunConfig, place: Place, output: Path) -> Fit:
    """Load the model and the data, fit, and save."""
    with complain.status("loading the model"):
        import_engines()
        from ..training.fit import fit as run
        from .prepare import prepare
        from .run_config import write_config

        model, task = prepare(settings, place)
    if _speaks():
        write_config(settings, output)
    with stoppable(_how_to_go_on(output)):
        fitted = run(model, task, settings.fit, directory=output, progress=complain.is_terminal)
    if _speaks():
        fitted.save_pretrained(output, settings.model, settings.revision or None)
    return fitted


def _speaks() -> bool:
    """Say whether this process writes and prints; of those that `accelerate launch` started, the first alone does."""
    from ..training.processes import is_first

    return is_first()


def _how_to_go_on(output: Path) -> str:
    return f"what is done is kept in {output}; the same command goes on from there, and ends with the same probe"


def _example(settings: RunConfig) -> list[str]:
    """Return what `diffmask explain` takes of examples like those of a fit; only a table holds pairs."""
    data = settings.data
    if data.pair_column:
        columns = ["--text-column", data.text_column, "--pair-column", data.pair_column]
        return ["--input", data.validation or data.train, *columns]
    return ["picture.png" if settings.task.kind == "image" else "…"]


def _show(fitted: Fit, output: Path, as_json: bool, example: Sequence[str]) -> None:
    from ..training.pretrained import record

    found = record(fitted)
    if as_json:
        kept = {name: found[name] for name in ("scores", "feasible", "versions")}
        typer.echo(json.dumps({"run": str(output), "fingerprint": fitted.fingerprint, **kept}))
        return
    from ..report.depths import depth_table
    from ..training.card import decides

    say.print(depth_table(found["scores"], fitted.config.objective.margin, decides(found)))
    say.print(f"wrote {output}", markup=False, highlight=False, soft_wrap=True)
    command = shlex.join(["diffmask", "explain", "--run", str(output), *example])
    say.print(f"next: {command}", markup=False, highlight=False, soft_wrap=True)
