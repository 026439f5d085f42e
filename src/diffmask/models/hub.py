"""Find the files of a model: in a directory, or on the Hub, from which only weights and settings come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DiffMaskError, StorageError

FILES = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja")  # no pickles, no Python
PATIENCE = 10.0  # seconds until the Hub counts as out of reach


@dataclass(frozen=True)
class Place:
    """A directory with files, what a person called it, and the revision, if it came from the Hub."""

    path: Path
    name: str
    revision: str | None = None


def fetch(name: str | Path, revision: str | None = None, what: str = "model", files: Sequence[str] = FILES) -> Place:
    """Return the directory of that name, or fetch the repository of that name from the Hub."""
    path = Path(name).expanduser()
    if path.is_dir():
        if revision is not None:
            raise StorageError(f"{name} is a directory, which has no revision {revision}: leave revision out")
        return Place(path.resolve(), str(path.resolve()))
    if path.is_file():
        raise StorageError(f"{name} is a file: give the directory of a {what}, or its name on the Hub")
    if not hub_name(str(name)):
        raise StorageError(f"there is no directory {name}: give the directory of a {what}, or its name on the Hub")
    return _download(str(name), revision, what, files)


def hub_name(name: str) -> bool:
    """Say whether a name can be one of the Hub's: a repository, perhaps after the name of whose it is."""
    parts = name.split("/")
    return len(parts) <= 2 and all(part and part[0] not in ".~-" for part in parts) and "\\" not in name


def _download(name: str, revision: str | None, what: str, files: Sequence[str]) -> Place:
    hub = import_hub()
    try:
        found = hub.model_info(
            name, revision=revision, timeout=PATIENCE
        ).sha  # asks once; a download would try for long
    except (hub.errors.RepositoryNotFoundError, hub.errors.HFValidationError) as error:
        raise StorageError(
            f"there is no directory {name} and no {what} of that name on the Hub: check the spelling, or log in with "
            "`hf auth login` if it is private"
        ) from error
    except hub.errors.RevisionNotFoundError as error:
        raise StorageError(
            f"{name} has no revision '{revision}' on the Hub: name a branch, a tag or a commit"
        ) from error
    except Exception as error:  # whichever network package the Hub's client is built on
        return _cached(hub, name, revision, what, files, error)
    path = Path(hub.snapshot_download(name, revision=found, allow_patterns=list(files)))
    return Place(path, name, found)


def _cached(hub: Any, name: str, revision: str | None, what: str, files: Sequence[str], trouble: Exception) -> Place:
    """Take what an earlier visit left, if the Hub cannot be reached."""
    try:
        path = hub.snapshot_download(name, revision=revision, allow_patterns=list(files), local_files_only=True)
    except (OSError, ValueError):
        raise StorageError(
            f"there is no directory {name}, and the Hub could not be reached to look for a {what} of that name "
            f"({trouble}): check the connection, or give a directory"
        ) from trouble
    return Place(Path(path), name, Path(path).name)


def import_hub() -> Any:
    """Import the Hub's client, which comes with transformers."""
    try:
        import huggingface_hub
        import huggingface_hub.errors
    except ImportError as error:
        raise DiffMaskError("the Hub's client is not installed: pip install huggingface_hub") from error
    return huggingface_hub
