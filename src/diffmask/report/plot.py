"""Pictures of single explanations: units by depth, a text with its units coloured, patches over an image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import DataError, SettingError
from ..explanation import Explanation, to_pixels
from ..pictures import Seen, as_bytes, as_shown
from .explanations import heat_map
from .plain import grid_of, kept_at, pieces, record, short_names
from .style import COLOURS, MARKERS, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDE = 78  # letters on a line of coloured text
FADE = 0.88  # of what is surely dropped: its shape can still be seen


def plot(explanation: Explanation, image: Any = None, *, depth: int | None = None) -> Figure:
    """Draw every depth of a text, or the patches of an image at one depth."""
    if depth is not None and not 0 <= depth < len(explanation.depths):
        raise SettingError(f"depth {depth} does not exist: this explanation has {len(explanation.depths)}, from 0 on")
    if image is not None or explanation.info.get("grid"):
        return patches(explanation, image, explanation.depth if depth is None else depth)
    return heat_map(record(explanation, "")) if depth is None else coloured_text(explanation, depth)


def coloured_text(explanation: Explanation, depth: int | None = None) -> Figure:
    """Write the units on a tint of their probability, kept ones bold with a line below them."""
    depth = explanation.depth if depth is None else depth
    lines = _lines(pieces(explanation.units))
    figure, (axis,) = new_figure(1, width=0.08 * WIDE, height=0.4 + 0.32 * len(lines))
    chances, kept = explanation.scores[depth].exp().tolist(), kept_at(explanation, depth)
    for row, line in enumerate(lines):
        for unit, column, text in line:
            _write_unit(axis, text, column, row, chances[unit], kept[unit])
    axis.set(xlim=(-0.5, WIDE + 0.5), ylim=(len(lines) - 0.3, -0.7))
    axis.axis("off")
    axis.set_title(f"kept at {short_names(explanation.depths)[depth]}: bold", fontsize=8, loc="left", parse_math=False)
    return figure


def _lines(shown: Sequence[Any]) -> list[list[tuple[int, float, str]]]:
    """Lay the units out on lines of so many letters: (unit, column, text)."""
    lines: list[list[tuple[int, float, str]]] = [[]]
    column = 0.0
    for number, piece in enumerate(shown):
        start = column if piece.joined or not lines[-1] else column + 1
        if lines[-1] and start + len(piece.text) > WIDE:
            lines.append([])
            start = 0.0
        lines[-1].append((number, start, piece.text[:WIDE]))
        column = start + len(piece.text)
    return lines


def _write_unit(axis: Any, text: str, column: float, row: int, chance: float, kept: bool) -> None:
    from matplotlib.patches import Rectangle

    corner, alpha = (column, row - 0.38), 0.45 * chance
    axis.add_patch(Rectangle(corner, len(text), 0.76, facecolor=COLOURS[0], alpha=alpha, linewidth=0))
    style = {"fontweight": "bold" if kept else "normal", "color": "black" if kept else "#666666"}
    axis.text(column, row, text, va="center", fontsize=9, family="monospace", parse_math=False, **style)
    if kept:
        axis.plot([column, column + len(text)], [row + 0.42] * 2, color=COLOURS[0], linewidth=2)


def patches(explanation: Explanation, image: Any = None, depth: int | None = None) -> Figure:
    """Draw an image beside itself with what is dropped faded, evenly and upsampled, kept patches outlined."""
    depth = explanation.depth if depth is None else depth
    rows, columns = _grid(explanation)
    pixels = _pixels(image, explanation.info.get("seen"), rows, columns)
    chances = explanation.scores[depth].exp()
    figure, axes = new_figure(3 if image is not None else 2, width=2.7, height=3.0)
    faded = {
        "kept: outlined": _faded(pixels, chances, (rows, columns), "nearest"),
        "upsampled": _faded(pixels, chances, (rows, columns), "bilinear"),
        "the image": pixels,
    }
    for axis, (title, shown) in zip(axes, faded.items(), strict=False):
        axis.imshow(shown.numpy(), extent=(0, columns, rows, 0), aspect="auto")
        axis.set_title(title, fontsize=8)
    _outline(axes[0], kept_at(explanation, depth), columns)
    for axis in axes:
        axis.set(xticks=[], yticks=[])
        axis.set_box_aspect(pixels.shape[0] / pixels.shape[1])
    figure.suptitle(f"probability of being kept, {short_names(explanation.depths)[depth]}", fontsize=9)
    return figure


def _faded(
    pixels: Float[Tensor, "height width 3"],
    chances: Float[Tensor, " unit"],
    grid: tuple[int, int],
    how: Literal["nearest", "bilinear"],
) -> Float[Tensor, "height width 3"]:
    """Let patches go to white with their chance of being dropped."""
    laid = to_pixels(chances, grid, (pixels.shape[0], pixels.shape[1]), how)
    fade = FADE * (1 - laid.clamp(0, 1)).unsqueeze(-1)
    return (pixels * (1 - fade) + fade).clamp(0, 1)


def _grid(explanation: Explanation) -> tuple[int, int]:
    found = grid_of(explanation)
    if found is None:
        raise DataError(
            f"patches are drawn over an image with one for each of the {len(explanation.units)} units, got the grid "
            f"{explanation.info.get('grid')}: explain with an image task, or set info['grid']"
        )
    return found


def _pixels(image: Any, seen: Seen | None, rows: int, columns: int) -> Float[Tensor, "height width 3"]:
    """Return an image as the model saw it, height × width × 3 in [0, 1]; without one, an even grey."""
    if image is None:
        return torch.full((8 * rows, 8 * columns, 3), 0.45)
    (pixels,) = as_bytes([as_shown(image, seen)])
    return pixels.permute(1, 2, 0).float() / 255


def _outline(axis: Any, kept: Sequence[bool], columns: int) -> None:
    from matplotlib.patches import Rectangle

    for patch, keep in enumerate(kept):
        if keep:
            corner = (patch % columns, patch // columns)
            axis.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor="black", linewidth=2.4))
            axis.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor="white", linewidth=1.0))


def perturbation_curves(curves: Mapping[str, Mapping[str, Sequence[float]]], label: str) -> Figure:
    """Draw what is left of the prediction as units go, for each method: both orders, most and least important first.

    Each method has `shares`, `most_first` and `least_first`, means over examples of `evaluation.perturbation.curves`.
    """
    figure, axes = new_figure(2, width=3.6, height=3.0)
    for axis, (key, title) in zip(
        axes, {"most_first": "most important first", "least_first": "least important first"}.items(), strict=True
    ):
        for number, (name, found) in enumerate(curves.items()):
            style = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)], "markersize": 4}
            axis.plot(found["shares"], found[key], label=name, **style)
        axis.set_title(title, fontsize=9)
        axis.set_xlabel("share of units removed", fontsize=8)
        axis.xaxis.set_major_formatter("{x:.0%}")
        axis.tick_params(labelsize=7)
    axes[0].set_ylabel(label, fontsize=8)
    axes[1].legend(fontsize=7)
    return figure
