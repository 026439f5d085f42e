"""Options that several commands have: one name, one meaning and one wording for each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RunName = Annotated[str, typer.Option(help="What `diffmask fit` wrote, or its name on the Hub.")]
ModelPlace = Annotated[str | None, typer.Option(help="Where the model of the run is now, if not where it was.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, … [default: a GPU if there is one].")]
Source = Annotated[Path | None, typer.Option("--input", help="A table of texts, a .txt of lines, a folder of images.")]
TextColumn = Annotated[str, typer.Option(help="The column of the text.")]
PairColumn = Annotated[str, typer.Option(help="The column of the second text of a pair.")]
ImageColumn = Annotated[str, typer.Option(help="The column of images or their paths.")]
Depth = Annotated[str, typer.Option(help="A number, which may count from the end, or a site's name.")]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse a text that is too long, not cut it.")]
