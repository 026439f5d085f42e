"""`diffmask demo`: sentences explained, checked and compared with rivals, in a minute or so and without a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from .common import draw_pictures, load_model, say, watched

EXAMPLE = "Example: diffmask demo --output runs/demo"


def demo(
    output: Annotated[Path, typer.Option(help="The directory for demo.json and the pictures.")] = Path("runs/demo"),
    sentences: Annotated[int, typer.Option(min=1, max=20, help="How many sentences, from the first on.")] = 20,
) -> None:
    """Explain twenty sentences with the embedded model, compare with rivals, and draw what was found."""
    fitted = load_model()
    from ..studies.demo import SENTENCES, compare_all, write_demo

    chosen = SENTENCES[:sentences]
    found = list(watched(compare_all(fitted, chosen), "demo", len(chosen)))
    path = output / "demo.json"
    result = write_demo(path, found, fitted, f"diffmask demo --output {output} --sentences {sentences}")
    _show(result)
    say.print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)
    draw_pictures(path)


def _show(result: Mapping[str, Any]) -> None:
    from ..report.comparison import comparison, sentences, verdict

    for shown in (sentences(result), comparison(result)):
        say.print(shown)
    for line in verdict(result):
        say.print(line, markup=False, highlight=False)
