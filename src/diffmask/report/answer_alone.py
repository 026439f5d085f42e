"""What is left of a prediction where the question and the predicted answer are kept alone, as a table."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

MEASURES = {"kl": "the prediction (KL)", "decision": "the decision"}


def table(result: Mapping[str, Any]) -> str:
    """Return the mean over the seeds, and the lowest and the highest of what is kept, mask by mask."""
    lines = [
        "| kept beside the question | baseline learned to keep | passage masked | predictions kept | KL |",
        "|---|---|---|---|---|",
    ]
    for (side, measure), group in groupby(result["rows"], lambda row: (row["side"], row["measure"])):
        rows = list(group)
        masked, divergence = (sum(row[key] for row in rows) / len(rows) for key in ("passage_masked", "divergence"))
        kept = [row["predictions_kept"] for row in rows]
        said = f"{sum(kept) / len(kept):.1%} ({min(kept):.1%} to {max(kept):.1%})"
        lines.append(f"| {_beside(side)} | {MEASURES[measure]} | {masked:.1%} | {said} | {divergence:.2f} |")
    return "\n".join(lines)


def _beside(side: int | None) -> str:
    if side is None:
        return "nothing"
    return f"the answer and {side} tokens on each side" if side else "the answer"
