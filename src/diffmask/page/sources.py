"""Read what was saved: explanations (JSONL, safetensors, Parquet, a demo's result) and comparisons of methods."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import DataError, DiffMaskError
from ..explanation import KIND, Explanation
from ..storage import kind_of
from .entries import Entry, entry

KNOWN = (".json", ".jsonl", ".ndjson", ".parquet", ".safetensors")
TAKES = (
    "what diffmask explain --output (JSONL), Explanation.save (safetensors) or diffmask compare --format json wrote, "
    "or Parquet of explanations"
)
COMPARED = {"rows", "costs", "setting", "first"}  # what a comparison's record has and nothing else
NESTED = ("units", "depths", "scores", "kept", "verification", "info", "rivals", "grid")
MANIFEST = "_manifest.json"  # beside the shards of the bulk engine
MEASURED = ("divergence", "margin", "measure", "within_margin", "same_prediction", "masked_prediction")
ABOUT = ("versions", "commit", "hardware", "command")  # what a result file says of its making


@dataclass
class Sources:
    """What a report is made from: entries in the order they were read, and comparisons by the name of their file."""

    entries: list[Entry] = field(default_factory=list)
    comparisons: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    left_out: int = 0  # rows that say why they could not be explained


def read_sources(paths: Sequence[Path]) -> Sources:
    """Read files, and the known files of directories, in the order given."""
    found = Sources()
    for path in _files(paths):
        _read(path, found)
    if not found.entries and not found.comparisons:
        raise DataError(f"{', '.join(map(str, paths))} hold no explanations: give {TAKES}")
    return found


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            inside = sorted(each for each in path.rglob("*") if each.suffix in KNOWN and each.is_file() and _ours(each))
            if not inside:
                raise DataError(f"{path} holds no file a report can show: give {TAKES}")
            yield from inside
        elif not path.exists():
            raise DataError(f"no file {path}: give {TAKES}")
        else:
            yield path


def _ours(path: Path) -> bool:
    """Say whether a file of a directory is for a report: others lie there too, such as settings and probes."""
    if path.suffix == ".safetensors":
        return kind_of(path) == KIND
    if path.suffix != ".json":
        return True
    content = _parsed(path, _text(path), "")
    first = content[0] if isinstance(content, list) and content else content
    return isinstance(first, Mapping) and ("units" in first or "explanations" in first or set(first) >= COMPARED)


def _read(path: Path, found: Sources) -> None:
    readers = {".safetensors": _safetensors, ".parquet": _parquet, ".json": _json, ".jsonl": _lines, ".ndjson": _lines}
    if path.suffix not in readers:
        raise DataError(f"{path} has the ending '{path.suffix}', a report takes {', '.join(KNOWN)}: give {TAKES}")
    for number, record in enumerate(readers[path.suffix](path), 1):
        if isinstance(record, Mapping) and set(record) >= COMPARED:
            found.comparisons[path.stem] = record
            continue
        if isinstance(record, Mapping) and record.get("error"):
            found.left_out += 1
            continue
        try:
            found.entries.append(entry(record, picture=_image(path, record)))
        except (DataError, KeyError, TypeError, ValueError, AttributeError) as error:
            why = error if isinstance(error, DataError) else f"it is not a saved explanation ({error!r}): give {TAKES}"
            raise DataError(f"{path}, explanation {number}: {why}") from error


def _image(path: Path, record: Any) -> Path | None:
    """Find the image a record names, beside its file or from here; without it the patches are shown alone."""
    if not isinstance(record, Mapping) or record.get("picture"):
        return None
    patched = record.get("grid") or (record.get("info") or {}).get("grid")
    name = record.get("image") or (record.get("text") if patched else None)  # an image is known by its path
    places = [path.parent / str(name), Path(str(name))] if name else []
    return next((place for place in places if place.is_file()), None)


def _safetensors(path: Path) -> Iterator[Any]:
    yield Explanation.load(path)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as text ({error}): give {TAKES}") from error


def _lines(path: Path) -> Iterator[Any]:
    for number, line in enumerate(_text(path).split("\n"), 1):  # not splitlines: a text may hold U+2028
        if line.strip():
            yield _parsed(path, line, f", line {number},")


def _json(path: Path) -> Iterator[Any]:
    """Yield the explanations of a file: one, a list, a result file with a list, or a comparison."""
    content = _parsed(path, _text(path), "")
    if isinstance(content, Mapping) and isinstance(content.get("explanations"), list):
        about = {key: content[key] for key in ABOUT if key in content}
        yield from ({**each, "info": {**about, **(each.get("info") or {})}} for each in content["explanations"])
    else:
        yield from content if isinstance(content, list) else [content]


def _parsed(path: Path, text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise DataError(f"{path}{where} is not JSON ({error}): give {TAKES}") from error


def _parquet(path: Path) -> Iterator[Any]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise DiffMaskError(f"{path} needs pyarrow to be read: pip install pyarrow") from error
    try:
        rows = parquet.read_table(path).to_pylist()
    except (ArrowException, OSError) as error:
        raise DataError(f"{path} is not a Parquet file ({error}): give {TAKES}") from error
    about = _manifest(path.parent / MANIFEST)
    yield from ({**_unpacked(row), **about} for row in rows)


def _manifest(path: Path) -> dict[str, Any]:
    """Read what shards were made with from the manifest beside them, if there is one."""
    content = _parsed(path, _text(path), "") if path.is_file() else {}
    if not isinstance(content, Mapping) or "identity" not in content:
        return {}
    return {"info": {**content["identity"], "versions": content.get("versions")}}


def _unpacked(row: dict[str, Any]) -> dict[str, Any]:
    """Read the columns that are written as JSON, lay out flat scores, put what was measured together."""
    plain = {
        key: json.loads(value) if key in NESTED and isinstance(value, str) else value for key, value in row.items()
    }
    scores, units = plain.get("scores"), len(plain.get("units") or ())
    if scores and units and not isinstance(scores[0], list):
        plain["scores"] = [scores[start : start + units] for start in range(0, len(scores), units)]
    if "verification" not in plain and plain.get("margin") is not None:
        plain["verification"] = {name: plain.get(name) for name in MEASURED}
    return plain
