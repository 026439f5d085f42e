"""What is finished of a comparison: one small file for each method and batch, so that a stopped one goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..errors import StorageError
from ..storage import write_file

SETTING = "comparison.json"


class Cells:
    """Keeps what is made in a directory, or nowhere if there is none."""

    def __init__(self, directory: str | Path | None, setting: Mapping[str, Any]) -> None:
        self.directory = None if directory is None else Path(directory)
        if self.directory is not None:
            self._check(self.directory / SETTING, json.dumps(dict(setting), indent=1))

    def get_or_make(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return what is kept under a name, or make and keep it."""
        if self.directory is None:
            return make()
        path = self.directory / f"{name}.json"
        if path.is_file():
            return dict(json.loads(path.read_text()))
        made = make()
        write_file(path, json.dumps(made).encode())
        return made

    def _check(self, path: Path, setting: str) -> None:
        """Refuse to mix the cells of two comparisons."""
        if path.is_file() and path.read_text() != setting:
            raise StorageError(
                f"{path.parent} holds a comparison with other settings (they are in {path.name}): name another "
                "directory, or remove it"
            )
        write_file(path, setting.encode())
