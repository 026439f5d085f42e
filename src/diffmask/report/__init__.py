"""⑩ Showing what was measured: tables and pictures from result files, without a model."""

from __future__ import annotations

from ..registry import Registry

TABLES = Registry("table", {"digits": "diffmask.report.digits:table"})
PICTURES = Registry(
    "picture",
    {
        "digits": "diffmask.report.digits:pictures",
        "demo": "diffmask.report.explanations:pictures",
    },
)
