"""Read whole tables of labelled texts, and say what is missing in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import DataError
from .tables import Row, stream_rows


def read_rows(path: Path, columns: Sequence[str]) -> list[Row]:
    """Read a table whose rows have something in each of these columns."""
    rows = list(stream_rows(path, columns))
    if not rows:
        raise DataError(f"{path} has no rows: write at least one text into it")
    for number, row in enumerate(rows, 1):
        empty = [name for name in columns if row.get(name) is None]
        if empty:
            raise DataError(f"{path}, row {number} has nothing in column '{empty[0]}': fill it, or leave the row out")
    return rows


def class_number(value: Any, where: str) -> int:
    """Read a label as a whole number from 0 on."""
    text = str(value).strip().removesuffix(".0")
    if not text.isdigit():
        raise DataError(f"{where}: a label is a class number 0, 1, …, got {value!r}")
    return int(text)
