"""⑪ The papers' experiments: each composes the rooms and writes a result file."""

from __future__ import annotations

from ..registry import Registry

STUDIES = Registry("study", {"digits": "diffmask.studies.digits:run"})
