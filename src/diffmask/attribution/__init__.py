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
        "gradient": "diffmask.attribution.gradient:GradientNorm",
        "gradient-input": "diffmask.attribution.gradient_input:GradientInput",
        "integrated-gradients": "diffmask.attribution.integrated_gradients:IntegratedGradients",
        "leave-one-out": "diffmask.attribution.leave_one_out:LeaveOneOut",
        "attention": "diffmask.attribution.attention:Attention",
        "uniform": "diffmask.attribution.uniform:Uniform",
        "random": "diffmask.attribution.random:Random",
    },
)
