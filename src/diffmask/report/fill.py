"""Fill the tables of a Markdown file from result files, so that no figure is typed by hand.

A table stands between two comments, and whatever is between them is replaced:

    <!-- table: results/digits.json -->
    <!-- end -->
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from ..errors import DataError
from . import TABLES

SLOT = re.compile(r"(<!-- table: (?P<path>\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def fill(text: str, root: Path) -> str:
    """Return `text` with every table made anew from the file it names, relative to `root`."""
    return SLOT.sub(lambda slot: f"{slot[1]}{_table(root / slot['path'])}\n{slot[3]}", text)


def read_result(path: Path) -> dict[str, object]:
    """Read a result file, saying what is wrong with it if it is not one."""
    try:
        result = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise DataError(f"no result file {path}: run the study that makes it, e.g. diffmask study digits") from error
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is not a result file ({error}): run its study again") from error
    if not isinstance(result, dict) or "study" not in result:
        raise DataError(f"{path} is not a result file: it names no study; run its study again")
    return result


def _table(path: Path) -> str:
    result = read_result(path)
    table: str = TABLES.get(str(result["study"]))(result)
    return f"{table}\n\nMade by `{result['command']}`; every row is in [{path.name}](results/{path.name})."
