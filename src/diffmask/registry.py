"""Tables of names: adding an entry is one line, and nothing is imported before it is asked for."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .errors import UnknownNameError


@dataclass(frozen=True)
class Registry:
    """A table from a name to a "module:attribute", imported on first use.

    >>> Registry("divergence", {"kl": "diffmask.objective.divergence:kl"}).names
    ('kl',)
    """

    kind: str
    table: dict[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.table)

    def get(self, name: str) -> Any:
        """Import and return the entry called `name`."""
        if name not in self.table:
            raise UnknownNameError(unknown(self.kind, name, self.table))
        module, _, attribute = self.table[name].partition(":")
        return getattr(importlib.import_module(module), attribute)


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Say that `name` is not known, what it may have meant, and what is."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else "."
    shown = ", ".join(known[:30]) + (f" and {len(known) - 30} more" if len(known) > 30 else "")
    return f"no {kind} named '{name}'{hint} Known: {shown}"
