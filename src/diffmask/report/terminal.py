"""One explanation in a terminal: the prediction and its check, the units kept, and which depth drops what.

Colour is never alone: a kept unit is also bold and a dropped one struck through, and depth by depth a dropped unit is
dots, which every terminal, pipe and screen reader shows. Nothing in a text is read as markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.columns import Columns
from rich.console import Console, ConsoleOptions
from rich.style import Style
from rich.table import Table
from rich.text import Text

from ..explanation import Explanation
from .plain import Piece, answer, grid_of, kept_at, pieces, short_names

# One hue, so that every eye sees the same order. The lowest has none: most units are dropped, and should not shine.
SHADES = (None, "#d0e1f2", "#94c4df", "#2e7ebc", "#08488e")
LIGHT = 3  # so many shades are light enough for black letters
NARROW = 60  # a terminal of fewer columns has no room for the names of the depths


@dataclass(frozen=True)
class View:
    """An explanation ready to be printed by rich, in a terminal of any width."""

    explanation: Explanation

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table | Text | Columns]:
        yield head(self.explanation)
        yield Text()
        if (grid := grid_of(self.explanation)) is not None:
            yield patches(self.explanation, grid)
            return
        yield tokens(self.explanation)
        yield Text()
        yield from depth_lines(self.explanation, options.max_width)


def head(explanation: Explanation) -> Table:
    """Say what the model predicts, whether the explanation holds, and what it keeps."""
    rows = {"prediction": _prediction(explanation), "check": check(explanation), "kept": _kept(explanation)}
    if cut := explanation.info.get("cut"):
        rows["cut"] = Text(f"{cut} tokens that the model does not take, and nobody explained", style="dark_orange")
    table = Table.grid(padding=(0, 2))
    for name, said in rows.items():
        table.add_row(Text(name, style="dim"), said)
    return table


def _prediction(explanation: Explanation) -> Text:
    if explanation.verification is None:
        return Text("not measured")
    return Text(answer(explanation.verification.original, explanation.info.get("labels")), style="bold")


def check(explanation: Explanation) -> Text:
    """Say in one sentence what was measured when the model ran on the kept units alone."""
    checked = explanation.verification
    if checked is None:
        return Text("not verified: the model was not run on the kept units alone")
    sign, verdict = ("✓", "holds") if checked.within_margin else ("✗", "breaks the margin")
    compared = "≤" if checked.within_margin else ">"
    measured = f"divergence {checked.divergence:.4f} {compared} margin {checked.margin:g} ({checked.measure})"
    said = f"{sign} {'certified, ' if explanation.certified else ''}{verdict}: {measured}"
    return Text(said + _outcome(explanation), style="green" if checked.within_margin else "bold dark_orange")


def _outcome(explanation: Explanation) -> str:
    checked = explanation.verification
    if checked is None or checked.same_prediction is None:
        return ""
    if checked.same_prediction:
        return ", same prediction"
    return f", the prediction becomes {answer(checked.masked, explanation.info.get('labels'))}"


def _kept(explanation: Explanation) -> Text:
    count, depth = int(explanation.kept.sum()), explanation.depth
    return Text(f"{count} of {len(explanation.units)} units at depth {depth}, {explanation.depths[depth]}")


def tokens(explanation: Explanation) -> Text:
    """Show every unit on the shade of its probability of being kept at the chosen depth."""
    line = Text(overflow="fold")
    chances, kept = explanation.scores[explanation.depth].exp().tolist(), kept_at(explanation, explanation.depth)
    for piece, chance, keep in zip(pieces(explanation.units), chances, kept, strict=True):
        line.append("" if piece.joined or not line else " ")
        line.append(piece.text, _shaded(chance, bold=keep, strike=not keep))
    return line


def _shaded(chance: float, bold: bool = False, strike: bool = False) -> Style:
    shade = min(int(chance * len(SHADES)), len(SHADES) - 1)
    if SHADES[shade] is None:
        return Style(dim=not bold, bold=bold, strike=strike)
    ink = "#000000" if shade < LIGHT else "#ffffff"
    return Style(color=ink, bgcolor=SHADES[shade], bold=bold, strike=strike)


def patches(explanation: Explanation, grid: tuple[int, int]) -> Columns:
    """Show the patches of an image at every depth: a kept one is a block, a dropped one a dot."""
    names = short_names(explanation.depths)
    grids = [_patch_grid(explanation, depth, name, grid[1]) for depth, name in enumerate(names)]
    return Columns(grids, padding=(1, 3))


def _patch_grid(explanation: Explanation, depth: int, name: str, columns: int) -> Text:
    kept, chances = kept_at(explanation, depth), explanation.scores[depth].exp().tolist()
    arrow, share = "▸" if depth == explanation.depth else " ", sum(kept) / len(kept)
    drawn = Text(f"{arrow}{depth} {name}  {share:.0%}", no_wrap=True)
    for patch, (keep, chance) in enumerate(zip(kept, chances, strict=True)):
        drawn.append("" if patch % columns else "\n")
        drawn.append("■ " if keep else "· ", _shaded(chance, bold=keep))
    return drawn


def depth_lines(explanation: Explanation, width: int) -> Iterator[Text]:
    """Give each depth a line with the units it keeps, and dots for those it drops; long texts come in blocks."""
    shown, margins = pieces(explanation.units), _margins(explanation, width)
    room = max(8, width - cell_len(margins[0]))
    for number, block in enumerate(blocks(shown, room)):
        if number:
            yield Text()
        for depth, margin in enumerate(margins):
            yield _depth_line(explanation, depth, margin, shown, block, room)


def _margins(explanation: Explanation, width: int) -> list[str]:
    """Name each depth at the start of its line, with the share of units it keeps."""
    names = short_names(explanation.depths) if width >= NARROW else [""] * len(explanation.depths)
    space, margins = min(max(map(cell_len, names)), width // 5), []
    for depth, name in enumerate(names):
        kept = kept_at(explanation, depth)
        cut = name if cell_len(name) <= space else "…" + name[1 - space :]
        arrow, share = "▸" if depth == explanation.depth else " ", sum(kept) / len(kept)
        margins.append(f"{arrow}{depth:<2} {set_cell_size(cut, space)} {share:>4.0%}  ")
    return margins


def _depth_line(
    explanation: Explanation, depth: int, margin: str, shown: Sequence[Piece], block: range, room: int
) -> Text:
    line = Text(margin, no_wrap=True, overflow="crop")
    chances, kept = explanation.scores[depth].exp().tolist(), kept_at(explanation, depth)
    for unit in block:
        line.append("" if shown[unit].joined or unit == block.start else " ")
        text = _cut(shown[unit].text, room)
        line.append(*((text, _shaded(chances[unit], bold=True)) if kept[unit] else ("·" * cell_len(text), "dim")))
    return line


def blocks(shown: Sequence[Piece], room: int) -> list[range]:
    """Cut the units into runs that fit on a line, between words where that can be."""
    found, start = [], 0
    while start < len(shown):
        end, used = start + 1, cell_len(_cut(shown[start].text, room))
        while end < len(shown) and (used := used + _cells(shown[end], room)) <= room:
            end += 1
        between = end
        while start < between < len(shown) and shown[between].joined:
            between -= 1
        found.append(range(start, between if between > start else end))
        start = found[-1].stop
    return found


def _cells(piece: Piece, room: int) -> int:
    return cell_len(_cut(piece.text, room)) + (not piece.joined)


def _cut(text: str, room: int) -> str:
    return text if cell_len(text) <= room else set_cell_size(text, room - 1) + "…"


def legend() -> Text:
    """Say what shades and marks mean."""
    line = Text("kept with a probability of ", style="dim", overflow="fold")
    for shade in range(len(SHADES)):
        low, high = (round(100 * end / len(SHADES)) for end in (shade, shade + 1))
        line.append(f" {low}–{high} % ", _shaded((shade + 0.5) / len(SHADES)))
    return line.append(" bold: kept; struck through or dots: dropped; ▸ the depth explained")
