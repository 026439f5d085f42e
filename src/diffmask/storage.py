"""Files that are whole or not there: safetensors with a JSON header, written aside and then moved into place."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from .errors import StorageError

VERSION = 2  # of the layout of our files; raise it when an older reader would misread them
HEADER = "diffmask"


def write_file(path: str | Path, content: bytes) -> None:
    """Write a file so that a crash or a full disk leaves the old one, if any, untouched."""
    path = Path(path)
    home, aside = Path(os.path.realpath(path)), None  # a link stays one, and leads to the new file
    try:
        if home.exists() and not home.is_file() and not home.is_dir():  # /dev/null or a pipe: never to be replaced
            home.write_bytes(content)
            return
        home.parent.mkdir(parents=True, exist_ok=True)
        # Named before it is made: whoever interrupts this, from then on there is something to clean up by.
        aside = home.with_name(f".{home.name}.{secrets.token_hex(4)}")
        with open(aside, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, home)
    except BaseException as error:
        if aside is not None:
            with contextlib.suppress(OSError):
                aside.unlink()
        if not isinstance(error, OSError):
            raise
        kept = "the file that was there before is whole" if path.is_file() else "nothing was left behind"
        raise StorageError(
            f"could not write {path} ({error.strerror or error}); {kept}. "
            "Choose another place or free some space, then run again"
        ) from error


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file, read a part at a time."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def save_tensors(path: str | Path, kind: str, tensors: Mapping[str, Tensor], info: Mapping[str, Any]) -> None:
    """Save tensors with a JSON description; `kind` says what the file is."""
    header = json.dumps({**info, "kind": kind, "version": VERSION})
    plain = {name: tensor.detach().to("cpu").clone().contiguous() for name, tensor in tensors.items()}
    write_file(path, save(plain, metadata={HEADER: header}))


def load_tensors(path: str | Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Load what `save_tensors` wrote, refusing anything else."""
    path = Path(path)
    if not path.is_file():
        raise StorageError(f"no file {path}: give the path of a saved {kind}")
    try:
        with safe_open(path, framework="pt") as file:
            header = (file.metadata() or {}).get(HEADER)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, OSError) as error:
        raise StorageError(
            f"{path} is not a whole safetensors file ({error}): it may be cut off; make it again"
        ) from error
    return tensors, _checked(path, kind, header)


def kind_of(path: str | Path) -> str | None:
    """Say what a file of ours is, without reading its tensors; None for a file that is not ours."""
    try:
        with safe_open(path, framework="pt") as file:
            info = json.loads((file.metadata() or {}).get(HEADER, "null"))
    except (SafetensorError, OSError, ValueError):
        return None
    return info.get("kind") if isinstance(info, dict) else None


def _checked(path: Path, kind: str, header: str | None) -> dict[str, Any]:
    if header is None:
        raise StorageError(f"{path} was not written by diffmask: give the path of a saved {kind}")
    try:
        info = json.loads(header)
    except ValueError:
        info = None
    if not isinstance(info, dict):
        raise StorageError(f"{path} has a header diffmask did not write: give the path of a saved {kind}")
    if info.get("kind") != kind:
        raise StorageError(f"{path} is a saved {info.get('kind')}: give the path of a saved {kind}")
    if info.get("version") != VERSION:
        raise StorageError(
            f"{path} has layout version {info.get('version')}, this diffmask reads version {VERSION}: "
            "install the diffmask that wrote it, or make it again"
        )
    return info
