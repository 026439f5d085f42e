"""Show an explanation where a person is: as HTML in a notebook, in the terminal elsewhere."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console

from ..explanation import Explanation
from .terminal import View, legend


def show(explanation: Explanation) -> None:
    """Show an explanation; in a notebook its own HTML, in a terminal the view of the command line."""
    display = _notebook()
    if display is not None:
        display(explanation)
        return
    console = Console()
    console.print(View(explanation))
    console.print(legend())


def _notebook() -> Any:
    """Return the notebook's function to display things, or None where there is no notebook."""
    if "IPython" not in sys.modules:  # a notebook has imported it long ago
        return None
    from IPython import get_ipython
    from IPython.display import display

    shell = get_ipython()
    return display if shell is not None and getattr(shell, "kernel", None) is not None else None
