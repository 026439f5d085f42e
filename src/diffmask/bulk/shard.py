"""A shard: the explanations of one chunk as a Parquet file, whole or not there, with its own tally in its footer."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import DiffMaskError, StorageError
from ..explanation import Explanation
from ..report.plain import answer
from ..storage import write_file
from .rows import Row

FOOTER = b"diffmask"
Found = Explanation | str  # of one row: its explanation, or why there is none


@dataclass(frozen=True)
class Tally:
    """What can be said of many rows without reading them again."""

    rows: int = 0
    errors: int = 0
    within_margin: int = 0
    same_prediction: int = 0
    kept_fraction: float = 0.0  # summed over rows

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(Tally)))


def shard_name(chunk: int) -> str:
    return f"part-{chunk:05d}.parquet"


def tally(found: Sequence[Found]) -> Tally:
    """Count what was found."""
    good = [each for each in found if isinstance(each, Explanation)]
    checked = [each.verification for each in good if each.verification is not None]
    return Tally(
        rows=len(found),
        errors=len(found) - len(good),
        within_margin=sum(each.within_margin for each in checked),
        same_prediction=sum(bool(each.same_prediction) for each in checked),
        kept_fraction=sum(float(each.kept.float().mean()) for each in good),
    )


def write_shard(path: Path, run: str, rows: Sequence[Row], found: Sequence[Found]) -> Tally:
    """Write the rows of a chunk, in their order; a row that could not be explained has an `error` and no scores."""
    from pyarrow import parquet

    counted, content = tally(found), io.BytesIO()
    footer = {FOOTER: json.dumps({"run": run, "tally": asdict(counted)}).encode()}
    parquet.write_table(_table(rows, found).replace_schema_metadata(footer), content)
    write_file(path, content.getvalue())
    return counted


def read_tally(path: Path, run: str) -> Tally:
    """Read what a shard says of itself, refusing another run's."""
    pyarrow = arrow()
    try:
        footer = (pyarrow.parquet.read_schema(path).metadata or {}).get(FOOTER)
    except (pyarrow.ArrowException, OSError) as error:
        raise StorageError(f"{path} is not a whole Parquet file: remove it to explain its rows again") from error
    info = json.loads(footer) if footer else {}
    if info.get("run") != run:
        raise StorageError(f"{path} was written by another run: choose another output directory")
    return Tally(**info["tally"])


def arrow() -> Any:
    """Import pyarrow, or say how to get it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise DiffMaskError("shards are Parquet, which needs pyarrow: pip install 'diffmask[bulk]'") from error
    return pyarrow


def _table(rows: Sequence[Row], found: Sequence[Found]) -> Any:
    pa = arrow()
    columns = {
        "row": pa.array([row.number for row in rows], pa.int64()),
        "id": pa.array([row.name for row in rows], pa.string()),
        "text": pa.array([_shown(row.values) for row in rows], pa.string()),
        "scores": _scores(found),
    }
    plain = [_plain(each) for each in found]
    for name, kind in _kinds(pa).items():
        columns[name] = pa.array([each.get(name) for each in plain], kind)
    return pa.table(columns)


def _kinds(pa: Any) -> dict[str, Any]:
    """Name the columns that are made of plain values, and what they hold."""
    texts, flags = pa.list_(pa.string()), pa.list_(pa.bool_())
    return {
        "units": texts,
        "depths": texts,
        "depth": pa.int32(),
        "kept": flags,
        "divergence": pa.float64(),
        "margin": pa.float64(),
        "measure": pa.string(),
        "within_margin": pa.bool_(),
        "prediction": pa.string(),
        "masked_prediction": pa.string(),
        "same_prediction": pa.bool_(),
        "original": pa.string(),
        "masked": pa.string(),
        "certified": pa.bool_(),
        "cut": pa.int32(),
        "error": pa.string(),
    }


def _plain(found: Found) -> dict[str, Any]:
    if isinstance(found, str):
        return {"error": found}
    checked, labels = found.verification, found.info.get("labels")
    assert checked is not None  # every explanation of a file is verified
    return {
        "units": found.units,
        "depths": found.depths,
        "depth": found.depth,
        "kept": found.kept.numpy(),
        "divergence": checked.divergence if math.isfinite(checked.divergence) else None,
        "margin": checked.margin,
        "measure": checked.measure,
        "within_margin": checked.within_margin,
        "prediction": answer(checked.original, labels),
        "masked_prediction": answer(checked.masked, labels),
        "same_prediction": checked.same_prediction,
        "original": json.dumps(dict(checked.original)),
        "masked": json.dumps(dict(checked.masked)),
        "certified": found.certified,
        "cut": found.info.get("cut", 0),
    }


def _scores(found: Sequence[Found]) -> Any:
    """Lay the scores out as a list for each depth, from one flat array: lists of Python take ten times as long."""
    pa = arrow()
    scores = [each.scores for each in found if isinstance(each, Explanation)]
    flat = torch.cat([each.flatten() for each in scores]).exp().float().numpy() if scores else np.zeros(0, np.float32)
    widths = [each.shape[1] for each in scores for _ in range(len(each))]
    inner = pa.ListArray.from_arrays(pa.array(np.cumsum([0, *widths]), pa.int32()), pa.array(flat, pa.float32()))
    counts = [len(each.scores) if isinstance(each, Explanation) else 0 for each in found]
    missing = pa.array([isinstance(each, str) for each in found], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(np.cumsum([0, *counts]), pa.int32()), inner, mask=missing)


def _shown(values: Sequence[Any]) -> str | None:
    """Return what a row is known by: its text, the two of a pair as JSON, the path of an image."""
    if len(values) > 1:
        return json.dumps([None if value is None else str(value) for value in values], ensure_ascii=False)
    value = values[0].get("path") if isinstance(values[0], dict) else values[0]
    return None if value is None or isinstance(value, bytes) else str(value)
