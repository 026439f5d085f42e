"""Fill the tables of a Markdown file from result files, so that no figure is typed by hand.

A table stands between two comments, and whatever is between them is replaced:

    <!-- table: results/digits.json -->
    <!-- end -->

A study may have further tables: `results/sentiment.json#changes` is the one called changes.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from ..errors import DataError
from . import TABLES

KEYS = ("study", "command", "seeds", "summary", "rows")
SLOT = re.compile(
    r"(?P<begin><!-- table: (?P<path>[^\s#]+)(?P<part>#[\w-]+)? -->\n).*?(?P<end><!-- end -->)", re.DOTALL
)


def fill(text: str, root: Path) -> str:
    """Return `text` with every table made anew from the file it names, relative to `root`."""
    opened, closed = text.count("<!-- table: "), len(SLOT.findall(text))
    if opened != closed:
        raise DataError(f"{opened} tables begin and {closed} of them end: close each with <!-- end -->")
    return SLOT.sub(
        lambda slot: f"{slot['begin']}{_table(root, slot['path'], slot['part'] or '')}\n{slot['end']}", text
    )


def read_result(path: Path) -> dict[str, object]:
    """Read a result file, saying what is wrong with it if it is not one."""
    try:
        result = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise DataError(f"no result file {path}: run the study that makes it, e.g. diffmask study digits") from error
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is not a result file ({error}): run its study again") from error
    missing = [key for key in KEYS if not isinstance(result, dict) or key not in result]
    if missing:
        raise DataError(f"{path} is not a result file: it has no '{missing[0]}'; run its study again")
    return dict(result)


def _table(root: Path, path: str, part: str) -> str:
    result = read_result(root / path)
    table: str = TABLES.get(f"{result['study']}{part}")(result)
    return f"{table}\n\nMade by `{result['command']}`; every row is in [{path}]({path})."
