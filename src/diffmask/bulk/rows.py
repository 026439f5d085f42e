"""The rows of a table that are to be explained: numbered, perhaps named, and taken in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..tasks.tables import count_rows, stream_rows


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
        for number, found in enumerate(stream_rows(self.path, self.read, start), start):
            name = found.get(self.id_column) if self.id_column else None
            yield Row(number, None if name is None else str(name), tuple(map(found.get, self.columns)))

    def count(self) -> int:
        """Count the rows; a file that cannot be read to its end is refused now, not after hours."""
        count = count_rows(self.path, self.read)
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
