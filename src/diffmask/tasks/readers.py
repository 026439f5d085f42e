"""Read texts and images from where people keep them: tables, folders, lists, and data sets by their name on the Hub."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from ..errors import DataError, DiffMaskError, SettingError
from ..pictures import SUFFIXES, picture_folder, undecoded
from .images import Examples
from .labelled import read_rows
from .tables import KINDS, TAKES, Row, check_columns, kind_of

SOURCES = f"{TAKES}, or a data set of the Hub"


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
    return [image_of(row[column], path.parent) for row in read_source(source, [column])]


def image_of(value: Any, beside: Path) -> Any:
    """Return an image of a table: its bytes, or a path, which is relative to the table."""
    value = undecoded(value)
    return beside / value if isinstance(value, str) else value


def read_source(source: str | Path, columns: Sequence[str]) -> Sequence[Row]:
    """Read rows with at least these columns."""
    path = Path(source)
    if path.is_dir():
        raise DataError(f"{source} is a directory, and this task reads texts: give {SOURCES}")
    if path.is_file() or kind_of(path) in KINDS or not _may_be_named(str(source)):
        return read_rows(path, columns)
    return _data_set(str(source), columns)


def _may_be_named(name: str) -> bool:
    """Say whether a data set of the Hub can be called that: someone's, or the Hub's own."""
    return name.count("/") <= 1 and name[:1] not in (".", "/", "~", "")


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
            f"({(str(error).strip() or type(error).__name__).splitlines()[0]}): give {SOURCES}, NAME[:CONFIG][@SPLIT]"
        ) from error
    check_columns(found.column_names, columns, f"the data set {named}")
    if not len(found):
        raise DataError(f"the data set {named} has no rows: name another split, NAME[:CONFIG]@SPLIT")
    return Examples(found, range(len(found)))


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
