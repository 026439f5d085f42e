"""What every study leaves behind: figures with their command, commit, versions, hardware and seeds."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..provenance import commit, hardware, versions
from ..storage import write_file


def write_result(
    path: Path,
    study: str,
    command: str,
    seeds: Sequence[int],
    summary: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    **more: Any,
) -> dict[str, Any]:
    """Write a result file in the form all studies share, and return what was written."""
    result = {
        "study": study,
        "command": command,
        "commit": commit(),
        "versions": versions(),
        "hardware": hardware(),
        "seeds": list(seeds),
        "summary": dict(summary),
        "rows": list(rows),
        **more,
    }
    written: dict[str, Any] = _plain(result)
    write_file(path, (json.dumps(written, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())
    return written


def _plain(value: Any) -> Any:
    """Round what was measured to six figures, and write an infinite or undefined number as null, as JSON needs it."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
