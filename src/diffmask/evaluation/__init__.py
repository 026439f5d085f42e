"""⑨ Are the scores faithful: one file per metric and per way to remove a unit, one line in these tables."""

from __future__ import annotations

from ..registry import Registry

METRICS = Registry(
    "metric",
    {
        "truth-kl": "diffmask.evaluation.truth_divergence:TruthKL",
        "truth-js": "diffmask.evaluation.truth_divergence:TruthJS",
        "precision": "diffmask.evaluation.set_overlap:Precision",
        "recall": "diffmask.evaluation.set_overlap:Recall",
        "f1": "diffmask.evaluation.set_overlap:F1",
        "average-precision": "diffmask.evaluation.average_precision:AveragePrecision",
        "auroc": "diffmask.evaluation.auroc:Auroc",
        "kept-fraction": "diffmask.evaluation.kept_fraction:KeptFraction",
        "sufficiency": "diffmask.evaluation.eraser:Sufficiency",
        "comprehensiveness": "diffmask.evaluation.eraser:Comprehensiveness",
        "area-most-first": "diffmask.evaluation.perturbation:AreaMostFirst",
        "area-least-first": "diffmask.evaluation.perturbation:AreaLeastFirst",
        "srg": "diffmask.evaluation.perturbation:SymmetricRelevanceGain",
        "infidelity": "diffmask.evaluation.infidelity:Infidelity",
        "loo-agreement": "diffmask.evaluation.loo_agreement:LeaveOneOutAgreement",
        "seed-spread": "diffmask.evaluation.stability:SeedSpread",
        "seed-agreement": "diffmask.evaluation.stability:SeedAgreement",
        "seed-overlap": "diffmask.evaluation.stability:SeedOverlap",
        "rationale-f1": "diffmask.evaluation.set_overlap:RationaleF1",
        "rationale-average-precision": "diffmask.evaluation.plausibility:RationaleAveragePrecision",
        "rationale-iou-f1": "diffmask.evaluation.plausibility:RationaleIouF1",
        "randomisation": "diffmask.evaluation.randomisation:Randomisation",
        "hindsight": "diffmask.evaluation.swap:Hindsight",
        "swap-flips": "diffmask.evaluation.swap:SwapFlips",
    },
)

REMOVALS = Registry(
    "removal",
    {
        "baseline": "diffmask.evaluation.remove_to_baseline:ToBaseline",
        "mask-token": "diffmask.evaluation.remove_to_mask_token:ToMaskToken",
        "deletion": "diffmask.evaluation.remove_by_deletion:ByDeletion",
        "mean": "diffmask.evaluation.remove_to_mean:ToMean",
        "zero": "diffmask.evaluation.remove_to_zero:ToZero",
        "noise": "diffmask.evaluation.remove_to_noise:ToNoise",
    },
)
