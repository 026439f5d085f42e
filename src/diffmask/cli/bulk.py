"""`diffmask explain --input data.parquet --output out/`: a file of rows into a directory of shards."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import DataError
from .common import (
    BROKEN,
    check_ending,
    check_place,
    complain,
    import_engines,
    number_or_name,
    say,
    settle_threads,
    stoppable,
    watched,
)
from .inputs import Inputs

if TYPE_CHECKING:
    from ..bulk.run import Plan
    from ..bulk.shard import Tally


FILES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".txt", ".html")


@dataclass(frozen=True)
class Shards:
    """A file to explain row by row, the directory the shards go to, and who does it."""

    inputs: Inputs
    output: Path | None
    engine: str | None = None
    address: str | None = None
    workers: int | None = None
    id_column: str = ""
    chunk_size: int = 0

    @property
    def wanted(self) -> bool:
        """Whether shards are asked for: by an option that only they have, or by an output that is no file."""
        if self.engine or self.address or self.workers or self.id_column or self.chunk_size:
            return True
        output = self.output
        return self.inputs.source is not None and output is not None and (output.is_dir() or not output.suffix)

    @property
    def by(self) -> str:
        """The engine; an address or a number of workers says Ray as clearly as its name does."""
        return self.engine or ("ray" if self.address or self.workers else "local")

    def make(
        self,
        saved: Mapping[str, Any],
        depth: str,
        certify: bool,
        batch_size: int,
        target: str,
        as_json: bool,
        require_margin: bool,
    ) -> None:
        """Explain the rows that are not in the directory yet, and say what was found in all of them."""
        source, output = self._checked(target)
        with stoppable(f"what is finished stays in {output}, and the same command goes on from there"):
            with complain.status("loading the model and looking at the file"):
                plan = self._plan(saved, source, output, depth, certify, batch_size)
            for _ in watched(plan.work(), "explain", len(plan.missing)):
                pass
            found = plan.finish()
        _say(plan, found, output, as_json)
        _judge(plan, found, require_margin)

    def _checked(self, target: str) -> tuple[Path, Path]:
        if self.by == "local" and (self.address or self.workers):
            raise typer.BadParameter("--address and --workers are for --engine ray", param_hint="--engine")
        if self.inputs.source is None or self.output is None or self.inputs.texts:
            raise typer.BadParameter("shards are made with --input FILE --output DIRECTORY, and from no other text")
        if target != "predicted":
            raise typer.BadParameter("of the rows of a file, what is predicted is explained", param_hint="--target")
        if self.inputs.source.is_dir():
            raise DataError(
                f"{self.inputs.source} is a directory, and shards are made of tables: list its images in one, by their "
                "paths, or write one file with --output NAME.jsonl"
            )
        check_place(self.output, directory=True)
        if not self.output.exists():
            check_ending(
                self.output, "a directory of shards", FILES, "name a directory, or leave options for shards out"
            )
        return self.inputs.source, self.output

    def _plan(
        self, saved: Mapping[str, Any], source: Path, output: Path, depth: str, certify: bool, batch_size: int
    ) -> Plan:
        import_engines()
        from ..bulk.run import BulkConfig, make_plan
        from ..bulk.worker import Saved

        settle_threads(saved["run"])
        columns = (self.inputs.text_column, self.inputs.pair_column, self.inputs.image_column, self.id_column)
        config = BulkConfig(*columns, number_or_name(depth), certify, batch_size, self.chunk_size)
        return make_plan(
            *(Saved(**saved), source, output, config), engine=self.by, workers=self.workers, address=self.address
        )


def _say(plan: Plan, found: Tally, output: Path, as_json: bool) -> None:
    explained = found.rows - found.errors
    if as_json:
        typer.echo(json.dumps(summary(plan, found)))
        return
    began = sum(tally.rows for tally in plan.done.values())
    resumed = f" ({began} of them before)" if began else ""
    shards = "1 shard" if plan.job.chunk_count == 1 else f"{plan.job.chunk_count} shards"
    said = f"wrote {found.rows} rows{resumed} to {shards} in {output}"
    say.print(said, markup=False, highlight=False, soft_wrap=True)
    if explained:
        share = found.kept_fraction / explained
        said = f"{found.within_margin} of {explained} explanations hold their margin, {share:.1%} of the units are kept"
        say.print(said, highlight=False, soft_wrap=True)
    if found.errors:
        said = f"{found.errors} of {found.rows} rows could not be explained: their column 'error' says why"
        complain.print(said, style="yellow", highlight=False, soft_wrap=True)


def summary(plan: Plan, found: Tally) -> dict[str, object]:
    """Return what a run found, as plain data."""
    explained = found.rows - found.errors
    return {
        "output": str(plan.job.output),
        "run": plan.job.run,
        "engine": plan.engine,
        "shards": plan.job.chunk_count,
        "rows": found.rows,
        "rows_before": sum(tally.rows for tally in plan.done.values()),
        "errors": found.errors,
        "explained": explained,
        "within_margin": found.within_margin,
        "same_prediction": found.same_prediction,
        "kept_fraction": found.kept_fraction / explained if explained else None,
    }


def _judge(plan: Plan, found: Tally, require_margin: bool) -> None:
    """Fail if no row could be explained, or if a margin was required and a row does not hold it."""
    if found.errors == found.rows:
        raise DataError(f"not one of {found.rows} rows could be explained: see the column 'error' in {plan.job.output}")
    if require_margin and found.within_margin < found.rows:
        said = f"diffmask: {found.rows - found.within_margin} of {found.rows} rows do not hold their margin"
        hint = "" if plan.job.certified else "; --certify, with another output directory, repairs those explained"
        complain.print(said + hint, style="red", highlight=False, soft_wrap=True)
        raise typer.Exit(BROKEN)
