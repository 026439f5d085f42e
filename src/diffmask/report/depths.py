"""The end of a fit in a table: at each depth, what is kept, what that changes, and whether the margin holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from .plain import short_names


def depth_table(scores: Sequence[Mapping[str, Any]], margin: float, decides: bool = True) -> Table:
    """Show the scores of each depth, as `diffmask.json` has them; a model of values `decides` nothing."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("depth", justify="right")
    table.add_column("site", overflow="fold")
    for name in ("kept", "divergence", *(("decides alike",) if decides else ()), f"margin {margin:g}"):
        table.add_column(name, justify="right")
    for score, site in zip(scores, short_names([score["site"] for score in scores]), strict=True):
        holds = "✓ holds" if score["feasible"] else "✗ breaks"
        shares = [f"{score['kept']:.1%}", f"{max(0.0, score['divergence']):.4f}"]
        shares += [f"{score['agreement']:.1%}"] if decides else []
        table.add_row(str(score["depth"]), site, *shares, holds, style="" if score["feasible"] else "dark_orange")
    return table
