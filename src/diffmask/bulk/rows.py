"""Read the rows of a table one after the other, never all of them at once."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ..errors import DataError, DiffMaskError

AT_ONCE = 1024  # rows decoded together
PARQUET = (".parquet", ".pq")
DELIMITERS = {".csv": ",", ".tsv": "\t"}
LINES = (".jsonl", ".ndjson")
TAKES = "a .parquet, .csv, .tsv, .jsonl or, with one text on each line, .txt file"


@dataclass(frozen=True)
class Row:
    """One row: its number in the file, its name there if it has one, and the values of the columns asked for."""

    number: int
    name: str | None
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Table:
    """A file, the columns to explain, and the one that names a row, if any."""

    path: Path
    columns: tuple[str, ...]
    id_column: str = ""

    @property
    def read(self) -> tuple[str, ...]:
        """The columns that are read, each once."""
        return tuple(dict.fromkeys((*self.columns, *([self.id_column] if self.id_column else []))))

    def rows(self, start: int = 0) -> Iterator[Row]:
        """Yield the rows from number `start` on."""
        for number, found in enumerate(_records(self, start), start):
            name = found[self.id_column] if self.id_column else None
            yield Row(number, None if name is None else str(name), tuple(found[column] for column in self.columns))

    def count(self) -> int:
        """Count the rows; a file that cannot be read to its end is refused now, not after hours."""
        if self.path.suffix.lower() in PARQUET:
            with _open_parquet(self) as file:
                count = int(file.metadata.num_rows)
        else:
            count = sum(1 for _ in _records(self, 0))
        if count == 0:
            raise DataError(f"{self.path} has no rows: there is nothing to explain in it")
        return count


class Cursor:
    """Walks forward through a table, so that many chunks cost one reading; to go back, it opens the file again."""

    def __init__(self, table: Table) -> None:
        self.table, self.at = table, -1
        self.rows: Iterator[Row] = iter(())

    def take(self, start: int, stop: int) -> list[Row]:
        """Return the rows from `start` up to `stop`."""
        if not 0 <= self.at <= start:
            self.rows, self.at = self.table.rows(start), start
        found = list(islice(self.rows, start - self.at, stop - self.at))
        self.at = stop
        if len(found) != stop - start:
            raise DataError(f"{self.table.path} ends before row {stop}: it was changed while it was read; start anew")
        return found


def _records(table: Table, start: int) -> Iterator[Mapping[str, Any]]:
    """Yield what the columns hold, row by row, as the format has it."""
    kind, path = table.path.suffix.lower(), table.path
    if not path.is_file():
        raise DataError(f"no file {path}: give {TAKES}")
    if kind in PARQUET:
        return _parquet(table, start)
    if kind in DELIMITERS:
        return islice(_separated(table, DELIMITERS[kind]), start, None)
    if kind in LINES:
        return islice(_json_lines(table), start, None)
    if kind == ".txt":
        return islice(_texts(table), start, None)
    raise DataError(f"{path} cannot be read row by row: give {TAKES}")


def _parquet(table: Table, start: int) -> Iterator[Mapping[str, Any]]:
    """Skip whole groups of rows, then single ones."""
    with _open_parquet(table) as file:
        first, before = 0, 0
        while first < file.num_row_groups and before + file.metadata.row_group(first).num_rows <= start:
            before += file.metadata.row_group(first).num_rows
            first += 1
        groups = list(range(first, file.num_row_groups))
        batches = file.iter_batches(AT_ONCE, row_groups=groups, columns=list(table.read)) if groups else ()
        yield from islice((row for batch in batches for row in batch.to_pylist()), start - before, None)


def _open_parquet(table: Table) -> Any:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise DiffMaskError("Parquet needs pyarrow: pip install 'diffmask[bulk]'") from error
    if not table.path.is_file():
        raise DataError(f"no file {table.path}: give {TAKES}")
    try:
        file = parquet.ParquetFile(table.path)
    except (ArrowException, OSError) as error:
        raise DataError(f"{table.path} cannot be read as Parquet ({str(error).splitlines()[0]})") from error
    _check_columns(table, file.schema_arrow.names)
    return file


def _separated(table: Table, delimiter: str) -> Iterator[Mapping[str, Any]]:
    with table.path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, delimiter=delimiter)
        try:
            _check_columns(table, reader.fieldnames or [])
            yield from reader
        except (csv.Error, UnicodeDecodeError) as error:
            raise DataError(
                f"{table.path}, line {reader.line_num} cannot be read ({error}): write it as UTF-8"
            ) from error


def _json_lines(table: Table) -> Iterator[Mapping[str, Any]]:
    for number, line in _lines(table.path):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise DataError(f"{table.path}, line {number} is not JSON ({error}): write one object a line") from error
        if not isinstance(row, dict):
            raise DataError(f"{table.path}, line {number} is no JSON object: write one object a line")
        if number == 1:
            _check_columns(table, list(row))
        yield {column: row.get(column) for column in table.read}


def _texts(table: Table) -> Iterator[Mapping[str, Any]]:
    if table.id_column or len(table.columns) > 1:
        raise DataError(f"{table.path} has one text on each line and no columns: give a table that has them")
    return ({table.columns[0]: line} for _, line in _lines(table.path))


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, with their numbers."""
    with path.open(encoding="utf-8-sig", newline="\n") as file:
        try:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, line.strip()
        except UnicodeDecodeError as error:
            raise DataError(f"{path} cannot be read as text ({error}): write it as UTF-8") from error


def _check_columns(table: Table, names: Any) -> None:
    missing = [column for column in table.read if column not in names]
    if missing:
        raise DataError(f"{table.path} has no column '{missing[0]}': it has {', '.join(map(str, names)) or 'none'}")
