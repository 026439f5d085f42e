"""What a directory of shards was made from, and with what: by it, a stopped run knows its own shards from another's."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Set
from importlib import metadata
from pathlib import Path
from typing import Any

from ..errors import StorageError
from ..provenance import versions
from ..storage import write_file
from ..training.fit import Fit

MANIFEST = "_manifest.json"  # readers of Parquet directories skip names that begin with an underscore
LAYOUT = 1


def probe_hash(fitted: Fit) -> str:
    """Return a hash of the probe: what it masks, its margin, its weights; `fitted.fingerprint` is the model's.

    Other settings are about how it was fitted, and a new release may have more of them.
    """
    objective = fitted.config.objective
    about = (fitted.config.probe.kind, objective.margin, objective.divergence, fitted.probe.site_names)
    digest = hashlib.sha256(repr(about).encode())
    for name, tensor in sorted(fitted.probe.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def run_name(identity: Mapping[str, Any]) -> str:
    """Return a short name for what makes two runs write the same shards."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def read_manifest(output: Path) -> dict[str, Any] | None:
    """Read the manifest of a directory, None if it holds none; shards without one are refused."""
    path = output / MANIFEST
    if output.exists() and not output.is_dir():
        raise StorageError(f"{output} is a file: give a directory for the shards, --output DIRECTORY")
    if path.is_file():
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            assert isinstance(found["identity"], dict)
        except (ValueError, KeyError, TypeError, AssertionError) as error:
            raise StorageError(f"{path} is not a manifest of diffmask: choose another output directory") from error
        return dict(found)
    if next(output.glob("*.parquet"), None) is not None:
        raise StorageError(
            f"{output} holds Parquet files that are not of this run, and no {MANIFEST}: choose another output "
            "directory; nothing was written"
        )
    return None


def check_same(output: Path, there: Mapping[str, Any], identity: Mapping[str, Any]) -> None:
    """Refuse to add to the shards of a run that differs in anything that changes what they hold."""
    names = sorted({*there, *identity})
    differ = [name for name in names if there.get(name) != identity.get(name)]
    if differ:
        what = "; ".join(
            f"{name}: {_shown(there.get(name))} there, {_shown(identity.get(name))} here" for name in differ
        )
        raise StorageError(
            f"{output} holds the shards of another run ({what}): choose another output directory, or repeat that run's "
            "command to go on with it; nothing was overwritten"
        )


def check_no_others(output: Path, shards: Set[str]) -> None:
    """Refuse Parquet files beside the shards of a run: a reader of the directory would take their rows for its own."""
    others = sorted(path.name for path in output.glob("*.parquet") if path.name not in shards)
    if others:
        raise StorageError(
            f"{output} holds {others[0]}, which is not of this run: move it away, or choose another output directory; "
            "nothing was written"
        )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 20 else text[:12] + "…"


def mark_finished(output: Path, found: Mapping[str, Any]) -> None:
    """Note in the manifest that every row is there, and what was found in them."""
    content = json.loads((output / MANIFEST).read_text(encoding="utf-8"))
    write_file(output / MANIFEST, json.dumps({**content, "finished": dict(found)}, indent=2).encode() + b"\n")


def write_manifest(output: Path, identity: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Write what the shards are made from; `about` may change between a run and its resumption."""
    made_with = {**versions(), "pyarrow": metadata.version("pyarrow")}
    content = {"layout": LAYOUT, "run": run_name(identity), "identity": dict(identity), **about, "versions": made_with}
    write_file(output / MANIFEST, json.dumps(content, indent=2).encode() + b"\n")
