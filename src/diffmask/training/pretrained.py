"""Save a fit as others save models: a directory with the probe, what it belongs to in plain data, and a card to read.

The model itself is never written: its name, its revision and a fingerprint of its weights are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DiffMaskError, SettingError, StorageError
from ..models.fingerprint import class_name
from ..models.hub import hub_name, import_hub
from ..provenance import versions
from ..settings import to_dict
from ..storage import write_file
from ..tasks.described import describe
from .card import card, is_ours
from .saved import save_fit

if TYPE_CHECKING:
    from .fit import Fit

PROBE, RECORD, CARD = "probe.safetensors", "diffmask.json", "README.md"
VERSION = 1  # of the layout of the record; raise it when an older reader would misread it


def save_pretrained(fitted: Fit, directory: str | Path, base: str | None = None, revision: str | None = None) -> None:
    """Write the probe and its record into a directory; the record comes last, so that one with a record is whole."""
    place, described = Path(directory), record(fitted, base, revision)
    save_fit(fitted, place / PROBE)
    if not (place / CARD).exists() or is_ours((place / CARD).read_text(encoding="utf-8", errors="replace")):
        write_file(place / CARD, card(described).encode())
    write_file(place / RECORD, (json.dumps(described, indent=1, ensure_ascii=False) + "\n").encode())


def record(fitted: Fit, base: str | None = None, revision: str | None = None) -> dict[str, Any]:
    """Return what a probe belongs to and how good it is, as plain data."""
    return {
        "format": "diffmask",
        "version": VERSION,
        "base": _base(fitted, base, revision),
        "task": describe(fitted.task),
        "settings": to_dict(fitted.config),
        "scores": [
            {"site": fitted.probe.site_names[score.depth], **asdict(score)}
            | {"feasible": score.feasible(fitted.config.objective)}
            for score in fitted.scores
        ],
        "feasible": fitted.feasible,
        "versions": versions(),
    }


def _base(fitted: Fit, name: str | None, revision: str | None) -> dict[str, Any]:
    """Say which model the probe was fitted to: its name where it has one, and its fingerprint."""
    model = fitted.model.model
    config = getattr(model, "config", None)
    name = name or getattr(model, "name_or_path", None) or getattr(config, "_name_or_path", None) or None
    local = name is not None and Path(name).is_dir()
    return {
        "model": str(Path(name).resolve()) if name is not None and local else name,
        "revision": revision or (None if local else getattr(config, "_commit_hash", None)),
        "local": local,
        "tokenizer": getattr(getattr(fitted.task, "tokenizer", None), "name_or_path", None) or None,
        "fingerprint": fitted.fingerprint,
        "architecture": class_name(model),
        "dtype": str(fitted.model.dtype).removeprefix("torch."),
        "sites": list(fitted.probe.site_names),
    }


def read_record(directory: Path) -> dict[str, Any]:
    """Read the record of a directory that `save_pretrained` wrote, refusing anything else."""
    path = directory / RECORD
    if not path.is_file():
        raise StorageError(_no_record(directory))
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise StorageError(f"{path} is broken ({error}): save the probe again") from error
    if not isinstance(found, dict) or found.get("format") != "diffmask" or not isinstance(found.get("base"), dict):
        raise StorageError(f"{path} was not written by diffmask: give the directory of a saved probe")
    if found.get("version") != VERSION:
        raise StorageError(
            f"{path} has layout version {found.get('version')}, this diffmask reads version {VERSION}: install the "
            "diffmask that wrote it, or fit again"
        )
    return found


def _no_record(directory: Path) -> str:
    from .fit import checkpoints  # which needs this file

    if checkpoints(directory):
        return f"{directory} is a fit that has not ended: run the same command again, which goes on where it stopped"
    return f"{directory} is no saved probe, as it has no {RECORD}: give a directory that `diffmask fit` wrote"


def push_to_hub(
    fitted: Fit, repository: str, private: bool | None = None, message: str = "a probe", token: str | None = None
) -> str:
    """Save a fit into a repository of the Hub, made if it is not there, and return where it is."""
    import tempfile

    if not hub_name(repository):
        raise SettingError(f"'{repository}' is no name of a repository: give one like 'you/your-probe'")
    hub = import_hub()
    with tempfile.TemporaryDirectory() as aside:
        save_pretrained(fitted, aside)
        check_public(record(fitted)["base"])
        try:
            name = hub.create_repo(repository, private=private, exist_ok=True, token=token).repo_id
            found = hub.upload_folder(repo_id=name, folder_path=aside, commit_message=message, token=token)
        except Exception as error:  # whichever network package the Hub's client is built on
            raise DiffMaskError(
                f"{repository} could not be written to the Hub ({str(error).strip().splitlines()[0]}): check the "
                "connection, and log in with `hf auth login`"
            ) from error
    return str(getattr(found, "commit_url", found))


def check_public(base: Mapping[str, Any]) -> None:
    """Refuse to publish a probe whose model nobody else could find."""
    if base["model"] is None or base["local"]:
        raise SettingError(
            f"the probe belongs to {base['model'] or 'a model without a name'}, which others do not have: push the "
            "model first and load it by its name on the Hub, then fit or load the probe with it"
        )
