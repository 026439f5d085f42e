"""Tables of which classes of transformers can be explained, and of those that cannot, with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OUTCOMES = ("passes", "refused", "fails", "not built")


def table(result: Mapping[str, Any]) -> str:
    """Return how many classes of each task pass the exam."""
    lines = ["| task | classes | pass | refused | fail | no small model of it runs |", "|---|---|---|---|---|---|"]
    for task, counts in {**result["summary"]["tasks"], "all": result["summary"]}.items():
        figures = [counts.get(outcome, 0) for outcome in OUTCOMES]
        lines.append(f"| {task} | {sum(figures)} | {' | '.join(map(str, figures))} |")
    return "\n".join(lines)


def others(result: Mapping[str, Any]) -> str:
    """Return the classes that were built and cannot be explained, those of one reason together."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in result["rows"]:
        if row["outcome"] in ("refused", "fails"):
            found.setdefault((row["outcome"], _reason(row)), []).append(f"`{row['class']}`")
    lines = ["| | what it says | classes |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {out} | {why} | {', '.join(names)} |" for (out, why), names in found.items())])


def _reason(row: Mapping[str, Any]) -> str:
    """Take the first sentence, without the name of the class, so that those of one reason stand together."""
    sentence = str(row["why"]).replace(row["class"], "…")
    for rest in (". ", ": leave it out", ": name another"):
        sentence = sentence.split(rest)[0]
    return sentence.replace("|", "\\|")
