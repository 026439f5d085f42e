"""How far seeds lie apart, by how many probes decide together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KINDS = {"input": "inputs", "hidden": "hidden states"}


def table(result: Mapping[str, Any]) -> str:
    """Return one row for each kind of probe and size of committee."""
    lines = ["| masks | members | std over seeds | masked | KL | agreement |", "|---|---|---|---|---|---|"]
    for kind, sizes in result["summary"].items():
        for members, found in sizes.items():
            cells = [f"{found['std']:.3f}", f"{found['masked']:.1%}", f"{found['divergence']:.3f}"]
            lines.append(f"| {KINDS[kind]} | {members} | {' | '.join(cells)} | {found['agreement']:.3f} |")
    return "\n".join(lines)
