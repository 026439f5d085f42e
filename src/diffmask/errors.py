"""Everything that can go wrong, by the question a caller may ask.

DiffMaskError
├── SettingError      a setting is out of range                (also a ValueError)
├── UnknownNameError  no entry of that name in a table         (also a LookupError)
├── SiteError         a place in the model is not there, or was not reached
├── ModelError        the model returned something unusable
├── DataError         a batch or a data set is unusable
│   └── ExampleError  one example of several is
├── InfeasibleError   the constraint cannot be met, or forbids nothing
├── CollapseError     training ended where no gate can move
└── StorageError      a file is another model's, another version's, broken, or could not be written
"""

from __future__ import annotations


class DiffMaskError(Exception):
    """Any error this library raises on purpose: one sentence, with the next step in it."""


class SettingError(DiffMaskError, ValueError):
    """A setting is out of range."""


class UnknownNameError(DiffMaskError, LookupError):
    """A table has no entry of the name asked for."""


class SiteError(DiffMaskError):
    """A site does not exist in the model, holds no tensor, or was never reached."""


class ModelError(DiffMaskError):
    """The model returned something that no explanation can be built on."""


class DataError(DiffMaskError):
    """A batch or a data set cannot be used."""


class ExampleError(DataError):
    """One example cannot be used: `why`, and its `row` in the list of `count` that was given."""

    def __init__(self, why: str, row: int, count: int) -> None:
        super().__init__(why if count == 1 else f"example {row}: {why}")
        self.why, self.row = why, row


class InfeasibleError(DiffMaskError):
    """The constraint is broken even by the full input, or holds even for the empty one."""


class CollapseError(DiffMaskError):
    """Training ended in a state that no gradient leads out of."""


class StorageError(DiffMaskError):
    """A file on disk does not belong here, is broken, or could not be written."""
