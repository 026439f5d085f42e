"""⑧ Many rows: explain a file chunk by chunk into Parquet shards, in this process or on Ray; stopped, it goes on."""

from __future__ import annotations

from ..registry import Registry

ENGINES = Registry(
    "engine",
    {
        "local": "diffmask.bulk.local:work",
        "ray": "diffmask.bulk.on_ray:work",
    },
)
