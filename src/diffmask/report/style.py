"""How our pictures look: colours that colour-blind readers can tell apart, and marks beside them for print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import DiffMaskError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#999999", "#009e73", "#cc79a7", "#e69f00")  # Okabe & Ito
MARKERS = ("o", "^", ".", "s", "D", "v")


def new_figure(columns: int, width: float, height: float) -> tuple[Figure, list[Any]]:
    """Make a row of axes."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise DiffMaskError("pictures need matplotlib: pip install 'diffmask[plots]'") from error
    figure = Figure(figsize=(width * columns, height), layout="constrained", dpi=120)
    axes = figure.subplots(1, columns, squeeze=False)[0]
    return figure, list(axes)
