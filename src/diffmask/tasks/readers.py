"""Read texts and images from where people keep them: tables, folders, lists, and data sets by their name on the Hub."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from ..errors import DataError, DiffMaskError, SettingError
from .images import Examples
from .labelled import KINDS, OPEN, Row, check_columns, read_rows
from .pictures import SUFFIXES, picture_folder

PARQUET = (".parquet", ".pq")
PLAIN = ".txt"
SOURCES = f"a table ({', '.join((*KINDS, *PARQUET))}), a {PLAIN} with one text on each line, or a data set of the Hub"


@dataclass(frozen=True)
class DataConfig:
    """Where the examples are, and in which columns."""

    train: Annotated[str, "a table, a folder of pictures, or a data set of the Hub, NAME[:CONFIG][@SPLIT]"] = ""
    validation: Annotated[str, "the same, to validate on; if it is empty, a part of the training data"] = ""
    share: Annotated[float, "of the training data to validate on, where there is no other"] = 0.1
    text_column: Annotated[str, "the column that holds the text, or the first of a pair, such as a question"] = "text"
    pair_column: Annotated[str, "the column that holds the second text of a pair; empty for single texts"] = ""
    image_column: Annotated[str, "the column that holds images or their paths"] = "image"
    limit: Annotated[int, "use at most so many examples; 0 takes all"] = 0

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise SettingError(f"data.share must lie between 0 and 1, got {self.share}: it is what is validated on")
        if self.limit < 0:
            raise SettingError(f"data.limit must be 0 or a number of examples, got {self.limit}")


def read_examples(source: str | Path, config: DataConfig, images: bool) -> Sequence[Any]:
    """Read images, texts or pairs of texts, as many as are asked for."""
    if images:
        found = read_images(source, config.image_column)
    else:
        found = read_texts(source, config.text_column, config.pair_column)
    return found[: config.limit] if config.limit else found


def read_texts(source: str | Path, column: str = "text", pair: str = "") -> list[str] | list[tuple[str, str]]:
    """Read the texts of a source, or its pairs of texts."""
    columns = [column, pair] if pair else [column]
    rows = read_source(source, columns)
    for number, row in enumerate(rows, 1):
        for name in columns:
            if not isinstance(row[name], str) or not row[name].strip():
                raise DataError(
                    f"{source}, row {number} has no text in column '{name}' but {row[name]!r}: leave such rows out"
                )
    return [(row[column], row[pair]) for row in rows] if pair else [row[column] for row in rows]


def read_images(source: str | Path, column: str = "image") -> Sequence[Any]:
    """Read the images of a folder, one file, or a column of a table that holds them or their paths."""
    path = Path(source)
    if path.is_dir():
        return picture_folder(path)
    if path.suffix.lower() in SUFFIXES:
        return [path]
    return [_image(row[column], path.parent) for row in read_source(source, [column])]


def _image(value: Any, beside: Path) -> Any:
    """Return an image of a table: its bytes, or a path, which is relative to the table."""
    if isinstance(value, dict) and value.get("bytes") is not None:  # as data sets write them into Parquet
        return value["bytes"]
    value = value.get("path") if isinstance(value, dict) else value
    return beside / value if isinstance(value, str) else value


def read_source(source: str | Path, columns: Sequence[str]) -> Sequence[Row]:
    """Read rows with at least these columns."""
    path = Path(source)
    kind = (path.with_suffix("") if path.suffix in OPEN else path).suffix.lower()
    if path.is_dir():
        raise DataError(f"{source} is a directory, and this task reads texts: give {SOURCES}")
    if kind == PLAIN and path.is_file():
        return _lines(path, columns)
    if kind in PARQUET:
        return _parquet(path, columns)
    if path.is_file() or kind in KINDS or kind == PLAIN or not _may_be_named(str(source)):
        return read_rows(path, columns)
    return _data_set(str(source), columns)


def _may_be_named(name: str) -> bool:
    """Say whether a data set of the Hub can be called that: someone's, or the Hub's own."""
    return name.count("/") <= 1 and name[:1] not in (".", "/", "~", "")


def _lines(path: Path, columns: Sequence[str]) -> list[Row]:
    if len(columns) > 1:
        raise DataError(f"{path} has one text on each line, and pairs are asked for: give a table with both columns")
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").split("\n")]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as text ({error}): write one text on each line, in UTF-8") from error
    if not any(lines):
        raise DataError(f"{path} holds no text: write one on each line")
    return [{columns[0]: line} for line in lines if line]


def _parquet(path: Path, columns: Sequence[str]) -> list[Row]:
    if not path.is_file():
        raise DataError(f"no file {path}: give {SOURCES}")
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise DiffMaskError(f"{path} is Parquet, which needs pyarrow: pip install 'diffmask[tables]'") from error
    try:
        _check_names(parquet.read_schema(path).names, columns, str(path))
        rows: list[Row] = parquet.read_table(path, columns=list(columns)).to_pylist()
    except (ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet ({str(error).splitlines()[0]}): write it again") from error
    return _some(rows, str(path))


def _data_set(named: str, columns: Sequence[str]) -> Sequence[Row]:
    """Load a data set of the Hub, by NAME[:CONFIG][@SPLIT]; its rows are decoded when they are asked for."""
    named, _, split = named.partition("@")
    name, _, config = named.partition(":")
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise DiffMaskError(
            f"there is no file {named}; to load the data set of that name: pip install 'diffmask[tables]'"
        ) from error
    try:
        found = load_dataset(name, config or None, split=split or "train")
    except Exception as error:  # whatever the network, the Hub or the data set's files raise
        raise DataError(
            f"there is no file {named}, and no data set of that name could be loaded "
            f"({str(error).strip().splitlines()[0]}): give {SOURCES}, NAME[:CONFIG][@SPLIT]"
        ) from error
    _check_names(found.column_names, columns, f"the data set {named}")
    return _some(Examples(found, range(len(found))), f"the data set {named}")


def _check_names(found: Sequence[str], columns: Sequence[str], where: str) -> None:
    check_columns(dict.fromkeys(found, True), columns, where)


def _some(rows: Any, where: str) -> Any:
    if not len(rows):
        raise DataError(f"{where} has no rows")
    return rows


def split(examples: Sequence[Any], share: float, seed: int) -> tuple[list[Any], list[Any]]:
    """Part examples into those to train and to validate on, at random but always alike.

    >>> [len(part) for part in split(range(10), 0.2, seed=0)]
    [8, 2]
    """
    order = random.Random(seed).sample(range(len(examples)), len(examples))
    count = max(1, round(share * len(examples)))
    if count >= len(examples):
        raise DataError(f"{len(examples)} examples cannot be parted into training and validation: give more")
    return [examples[i] for i in order[count:]], [examples[i] for i in order[:count]]
