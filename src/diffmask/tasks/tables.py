"""Read the rows of a table one after the other: CSV, JSON lines, lines of text, perhaps compressed, or Parquet."""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from io import TextIOBase
from itertools import islice
from pathlib import Path
from typing import Any

from ..errors import DataError, DiffMaskError

Row = dict[str, Any]
OPEN: dict[str, Callable[..., Any]] = {".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open}
DELIMITERS = {".csv": ",", ".tsv": "\t"}
LINES = (".jsonl", ".ndjson")
PLAIN = ".txt"
PARQUET = (".parquet", ".pq")
KINDS = (*DELIMITERS, *LINES, *PARQUET, PLAIN)
TAKES = "a table (.csv, .tsv, .jsonl or .parquet) or a .txt with one text on each line"
AT_ONCE = 1024  # rows of Parquet decoded together


def kind_of(path: Path) -> str:
    """Return the ending that says what a file holds, without that of its compression."""
    return (path.with_suffix("") if path.suffix.lower() in OPEN else path).suffix.lower()


def stream_rows(path: Path, columns: Sequence[str], start: int = 0) -> Iterator[Row]:
    """Yield rows from number `start` on; the columns must be there, and in a row they may still be empty."""
    kind = _checked_kind(path)
    if kind in PARQUET:
        return _parquet(path, columns, start)
    return islice(_written(path, kind, columns), start, None)


def count_rows(path: Path, columns: Sequence[str]) -> int:
    """Count the rows, reading a file to its end unless it says the number itself."""
    if _checked_kind(path) not in PARQUET:
        return sum(1 for _ in stream_rows(path, columns))
    with _open_parquet(path, columns) as file:
        return int(file.metadata.num_rows)


def check_columns(found: Sequence[Any], columns: Sequence[str], where: str) -> None:
    """Name the columns that are missing and those that are there, and refuse two of one name."""
    missing = [name for name in columns if name not in found]
    if missing:
        there = ", ".join(f"'{name}'" for name in found if name)
        raise DataError(
            f"{where} has no column {', '.join(map(repr, missing))}; it has {there or 'none'}: say which columns to "
            "read, as with --text-column, or rename them"
        )
    for name in columns:
        if list(found).count(name) > 1:
            raise DataError(f"{where} has {list(found).count(name)} columns '{name}': rename all but the one to read")


def _checked_kind(path: Path) -> str:
    kind = kind_of(path)
    if not path.is_file():
        raise DataError(f"no file {path}: give {TAKES}")
    if kind not in KINDS:
        raise DataError(f"{path} is no table of texts that can be read: give {TAKES}")
    return kind


def _written(path: Path, kind: str, columns: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of a file of letters; a mark of their order at its beginning, as Excel writes it, is no letter."""
    try:
        with OPEN.get(path.suffix.lower(), open)(path, "rt", encoding="utf-8-sig", newline="") as file:
            if kind in DELIMITERS:
                yield from _separated(file, path, DELIMITERS[kind], columns)
            elif kind in LINES:
                yield from _objects(file, path, columns)
            else:
                yield from _texts(file, path, columns)
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, lzma.LZMAError, zlib.error) as error:
        raise DataError(f"{path} cannot be read as a table of texts ({error}): write it again, in UTF-8") from error


def _separated(file: TextIOBase, path: Path, mark: str, columns: Sequence[str]) -> Iterator[Row]:
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # a medical note is longer than csv expects a field to be
    reader = csv.DictReader(file, delimiter=mark)
    if reader.fieldnames is not None:  # an empty file has no rows, which is said where they are counted
        check_columns(reader.fieldnames, columns, str(path))
    for row in reader:
        if any(row.pop(None, None) or ()):
            raise DataError(
                f"{path}, line {reader.line_num} has more values than there are columns: put quotation marks around "
                f"texts that hold a {mark!r}"
            )
        yield row


def _objects(file: TextIOBase, path: Path, columns: Sequence[str]) -> Iterator[Row]:
    checked = False
    for number, line in _lines(file):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise DataError(f"{path}, line {number} is no JSON ({error}): put one object on a line") from None
        if not isinstance(row, dict):
            raise DataError(f"{path}, line {number} is a {type(row).__name__}: put one object on a line")
        if not checked:
            check_columns(list(row), columns, str(path))
            checked = True
        yield row


def _texts(file: TextIOBase, path: Path, columns: Sequence[str]) -> Iterator[Row]:
    if len(columns) > 1:
        asked = ", ".join(f"'{name}'" for name in columns)
        raise DataError(f"{path} has one text on each line, and {asked} are asked for: give a table with these columns")
    yield from ({columns[0]: line} for _, line in _lines(file))


def _lines(file: TextIOBase) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, with their numbers."""
    for number, line in enumerate(file, 1):
        if line.strip():
            yield number, line.strip()


def _parquet(path: Path, columns: Sequence[str], start: int) -> Iterator[Row]:
    """Skip whole groups of rows, then single ones."""
    with _open_parquet(path, columns) as file:
        first, before = 0, 0
        while first < file.num_row_groups and before + file.metadata.row_group(first).num_rows <= start:
            before += file.metadata.row_group(first).num_rows
            first += 1
        groups = list(range(first, file.num_row_groups))
        batches = file.iter_batches(AT_ONCE, row_groups=groups, columns=list(columns)) if groups else ()
        rows = (row for batch in _whole(path, batches) for row in batch.to_pylist())
        yield from islice(rows, start - before, None)


def _open_parquet(path: Path, columns: Sequence[str]) -> Any:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise DiffMaskError(f"{path} is Parquet, which needs pyarrow: pip install 'diffmask[tables]'") from error
    file = next(_whole(path, map(parquet.ParquetFile, [path])))
    check_columns(file.schema_arrow.names, columns, str(path))
    return file


def _whole(path: Path, parts: Any) -> Iterator[Any]:
    """Pass on what is read of a Parquet file, and say where it is broken."""
    from pyarrow import ArrowException

    try:
        yield from parts
    except (ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet ({str(error).splitlines()[0]}): write it again") from error
