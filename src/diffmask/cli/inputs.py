"""What a command is given to explain: texts or images as arguments, and those of a file or a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import DataError, ExampleError

if TYPE_CHECKING:
    from ..tasks.task import Task


TABLES = (".csv", ".tsv", ".json", ".jsonl", ".parquet", ".txt")


@dataclass(frozen=True)
class Inputs:
    """Arguments, and a source with the columns to read of it."""

    texts: tuple[str, ...]
    source: Path | None
    text_column: str = "text"
    pair_column: str = ""
    image_column: str = "image"

    @property
    def paths(self) -> list[Path]:
        """What may be files: the source, and arguments, which may be those of images."""
        return [*map(Path, self.texts), *([] if self.source is None else [self.source])]

    def check(self) -> None:
        """Refuse what cannot be explained by any model, before one is loaded."""
        if not self.texts and self.source is None:
            raise typer.BadParameter("give a text, or a file of them with --input", param_hint="TEXT")
        if file := next((text for text in self.texts if text.endswith(TABLES) and os.path.isfile(text)), None):
            raise typer.BadParameter(
                f"{file} is a file: to explain what is in it, use --input {file}", param_hint="TEXT"
            )
        if not all(text.strip() for text in self.texts):
            raise typer.BadParameter("a text is empty: there is nothing to explain in it", param_hint="TEXT")
        if self.source is not None and not self.source.exists() and self.source.suffix:
            raise DataError(f"no file {self.source}: give the path of a table, a .txt of lines, or a folder of images")

    def read(self, task: Task) -> list[Any]:
        """Return the examples as the task takes them."""
        from ..tasks.images import ImageClassification
        from ..tasks.readers import DataConfig, read_examples

        images = isinstance(task, ImageClassification)
        columns = DataConfig("", "", 0.1, self.text_column, self.pair_column, self.image_column)
        given: list[Any] = [_picture(text) for text in self.texts] if images else list(self.texts)
        if self.source is not None:
            given += read_examples(str(self.source), columns, images)
        return given

    @contextmanager
    def named(self, first: int = 0) -> Iterator[None]:
        """Say of an example that cannot be used where it was given, if `first` is the number of the first there is."""
        try:
            yield
        except ExampleError as error:
            raise DataError(f"{self._place(first + error.row)}: {error.why}") from error

    def _place(self, number: int) -> str:
        """Name an example by its place among the texts, or in the file; both count from 1, as people do."""
        if number < len(self.texts):
            return f"text {number + 1}"
        kind = "picture" if self.source is not None and self.source.is_dir() else "row"
        return f"{self.source}, {kind} {number - len(self.texts) + 1}"


def _picture(path: str) -> Path:
    if not Path(path).is_file():
        raise DataError(f"there is no picture '{path}': this model reads images, so give their paths")
    return Path(path)


def name_of(example: Any) -> str:
    """Return what an example is called when it is shown: a text itself, the two of a pair, an image by its path."""
    if isinstance(example, str | Path):
        return str(example)
    if isinstance(example, tuple):
        return "\n".join(map(str, example))
    return "an image"
