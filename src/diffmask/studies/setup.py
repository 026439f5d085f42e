"""What a study is asked to do, and where its data and models are."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DataError

News = Iterator[int | str | Mapping[str, Any]]  # how many runs there are, a line as each ends, at last the result


@dataclass(frozen=True)
class Setup:
    """How many seeds, how many at a time, and what is read and written."""

    seeds: int
    output: Path
    jobs: int = 1
    small: bool = False
    command: str = ""
    data: Path | None = None
    encoder: Path | None = None
    take_over: bool = False

    def work(self, study: str) -> Path:
        """Return where a study keeps what is finished."""
        return Path("runs") / (f"{study}-small" if self.small else study)

    def find_data(self, name: str) -> Path:
        """Return the directory of a data set, or say how to name it."""
        root = self.data or (Path(os.environ["DIFFMASK_DATA"]) if "DIFFMASK_DATA" in os.environ else None)
        if root is None or not (root / name).is_dir():
            raise DataError(
                f"this study needs a directory '{name}' in the data directory, which is {root or 'not given'}: name it "
                "with --data or DIFFMASK_DATA"
            )
        return root / name

    def find_encoder(self) -> Path:
        """Return the directory of the pretrained encoder, or say how to name it."""
        if self.encoder is None or not (self.encoder / "config.json").is_file():
            raise DataError(
                f"this study starts from a pretrained model, which is {self.encoder or 'not given'}: name a directory "
                "that transformers' from_pretrained reads with --encoder"
            )
        return self.encoder
