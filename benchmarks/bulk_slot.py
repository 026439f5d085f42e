"""Take over what `python -m benchmarks.bulk` measured of bulk explanation, which has a file of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULT = Path("results/bulk.json")


def measure(device: str) -> list[dict[str, Any]]:
    """Return the ratio of rows a second, if it was measured and this is the machine on which it is."""
    if device != "cpu" or not RESULT.is_file():
        return []
    ratio = json.loads(RESULT.read_text())["summary"]["bulk_over_local"]
    return [{"part": "bulk", "model": "embedded", "measure": "rows a second, bulk ÷ one call", "ratio": ratio}]
