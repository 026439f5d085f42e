"""⑨ Attention as explanation: classifiers that attend, how their scores become weights, and how they are trained."""

from __future__ import annotations

from ..registry import Registry

PROJECTIONS = Registry(
    "projection",
    {
        "softmax": "diffmask.attention.projections:softmax",
        "sparsemax": "diffmask.attention.projections:sparsemax",
        "sparsegen": "diffmask.attention.projections:sparsegen",
        "entmax15": "diffmask.attention.projections:entmax15",
    },
)

ENCODERS = Registry(
    "encoder",
    {
        "bilstm": "diffmask.attention.encoders:bilstm",
        "transformer": "diffmask.attention.encoders:transformer",
        "projection": "diffmask.attention.encoders:projection",
    },
)

ALIGNMENTS = Registry(
    "alignment",
    {
        "additive": "diffmask.attention.alignments:Additive",
        "dot": "diffmask.attention.alignments:ScaledDot",
    },
)
