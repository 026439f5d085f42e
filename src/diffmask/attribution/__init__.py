"""⑧ Scores per unit: ours and every rival. One file each, one line in this table, one call for all."""

from __future__ import annotations

from ..registry import Registry

METHODS = Registry(
    "attribution method",
    {
        "probe": "diffmask.attribution.probe:ProbeScores",
        "per-example": "diffmask.attribution.per_example:PerExample",
        "reinforce": "diffmask.attribution.reinforce:Reinforce",
        "erasure": "diffmask.attribution.erasure:ExactErasure",
        "uniform": "diffmask.attribution.uniform:Uniform",
        "random": "diffmask.attribution.random:Random",
    },
)
