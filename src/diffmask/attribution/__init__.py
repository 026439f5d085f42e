"""⑧ Scores per unit: ours and every rival. One file each, one line in this table, one call for all."""

from __future__ import annotations

from ..registry import Registry

METHODS = Registry(
    "attribution method",
    {
        "probe": "diffmask.attribution.probe:ProbeScores",
        "ranking": "diffmask.attribution.ranking:RankScores",
        "comparisons": "diffmask.attribution.comparisons:Comparisons",
        "per-example": "diffmask.attribution.per_example:PerExample",
        "reinforce": "diffmask.attribution.reinforce:Reinforce",
        "erasure": "diffmask.attribution.erasure:ExactErasure",
        "gradient": "diffmask.attribution.gradient:GradientNorm",
        "gradient-input": "diffmask.attribution.gradient_input:GradientInput",
        "integrated-gradients": "diffmask.attribution.integrated_gradients:IntegratedGradients",
        "leave-one-out": "diffmask.attribution.leave_one_out:LeaveOneOut",
        "kernel-shap": "diffmask.attribution.kernel_shap:KernelShap",
        "lime": "diffmask.attribution.lime:Lime",
        "attention": "diffmask.attribution.attention:Attention",
        "rollout": "diffmask.attribution.rollout:Rollout",
        "chefer": "diffmask.attribution.chefer:Chefer",
        "grad-cam": "diffmask.attribution.grad_cam:GradCam",
        "rise": "diffmask.attribution.rise:Rise",
        "bottleneck": "diffmask.attribution.bottleneck:Bottleneck",
        "guan": "diffmask.attribution.guan:Guan",
        "greedy": "diffmask.attribution.greedy:GreedyErasure",
        "uniform": "diffmask.attribution.uniform:Uniform",
        "random": "diffmask.attribution.random:Random",
    },
)
