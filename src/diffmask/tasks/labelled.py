"""Read rows of labelled texts from CSV or JSON lines, perhaps compressed, and say what is missing in them."""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import lzma
import sys
from collections.abc import Callable, Iterator, Sequence
from io import TextIOBase
from pathlib import Path
from typing import Any

from ..errors import DataError

Row = dict[str, Any]
OPEN: dict[str, Callable[..., Any]] = {".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open}
KINDS = (".csv", ".tsv", ".jsonl")


def read_rows(path: Path, columns: Sequence[str]) -> list[Row]:
    """Read a table whose rows have at least these columns."""
    if not path.is_file():
        raise DataError(f"no file {path}: give the path of a table of texts ({', '.join(KINDS)}, or with .xz or .gz)")
    kind = (path.with_suffix("") if path.suffix in OPEN else path).suffix
    if kind not in KINDS:
        raise DataError(f"{path.name} is no table of texts that can be read: it takes {', '.join(KINDS)}")
    try:
        with OPEN.get(path.suffix, open)(path, "rt", encoding="utf-8", newline="") as file:
            rows = list(_lines(file, path) if kind == ".jsonl" else _table(file, "\t" if kind == ".tsv" else ","))
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, lzma.LZMAError) as error:
        raise DataError(f"{path} cannot be read as a table of texts ({error}): write it again, in UTF-8") from error
    if not rows:
        raise DataError(f"{path} has no rows")
    for number, row in enumerate(rows, 1):
        check_columns(row, columns, f"{path}, row {number}")
    return rows


def check_columns(row: Row, columns: Sequence[str], where: str) -> None:
    """Name the columns that are missing and those that are there."""
    missing = [name for name in columns if row.get(name) is None]
    if missing:
        found = ", ".join(f"'{name}'" for name, value in row.items() if name and value is not None)
        raise DataError(
            f"{where} has no column {', '.join(repr(name) for name in missing)}; it has {found or 'none'}: rename "
            "them, or say which columns hold the text and the label"
        )


def class_number(value: Any, where: str) -> int:
    """Read a label as a whole number from 0 on."""
    text = str(value).strip().removesuffix(".0")
    if not text.isdigit():
        raise DataError(f"{where}: a label is a class number 0, 1, …, got {value!r}")
    return int(text)


def _lines(file: TextIOBase, path: Path) -> Iterator[Row]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise DataError(f"{path}, line {number} is no JSON ({error}): put one object on a line") from None
        if not isinstance(row, dict):
            raise DataError(f"{path}, line {number} is a {type(row).__name__}: put one object on a line")
        yield row


def _table(file: TextIOBase, mark: str) -> Iterator[Row]:
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # a medical note is longer than csv expects a field to be
    yield from csv.DictReader(file, delimiter=mark)
