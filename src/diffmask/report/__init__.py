"""⑩ Showing what was measured: tables and pictures from result files, without a model."""

from __future__ import annotations

from ..registry import Registry

TABLES = Registry(
    "table",
    {
        "answer-alone": "diffmask.report.answer_alone:table",
        "architectures": "diffmask.report.architectures:table",
        "architectures#others": "diffmask.report.architectures:others",
        "attention-cost": "diffmask.report.plain_results:attention_cost",
        "cifar10": "diffmask.report.cifar10:table",
        "digits": "diffmask.report.digits:table",
        "embedded-model": "diffmask.report.plain_results:embedded",
        "erasure": "diffmask.report.erasure:table",
        "ground-truth": "diffmask.report.ground_truth:table",
        "imagenet": "diffmask.report.cifar10:no_table",
        "needles": "diffmask.report.plain_results:needles",
        "patch-counting": "diffmask.report.patch_counting:table",
        "performance": "diffmask.report.performance:table",
        "question-answering": "diffmask.report.question_answering:table",
        "sentiment": "diffmask.report.sentiment:table",
        "sentiment#changes": "diffmask.report.sentiment:changes",
        "sparse-attention": "diffmask.report.sparse_attention:table",
        "stability": "diffmask.report.stability:table",
        "staying-true": "diffmask.report.staying_true:table",
        "trade-off": "diffmask.report.trade_off:table",
    },
)
PICTURES = Registry(
    "picture",
    {
        "answer-alone": "diffmask.report.plain_results:none",
        "architectures": "diffmask.report.plain_results:none",
        "attention-cost": "diffmask.report.plain_results:none",
        "cifar10": "diffmask.report.cifar10:pictures",
        "digits": "diffmask.report.digits:pictures",
        "demo": "diffmask.report.explanations:pictures",
        "embedded-model": "diffmask.report.plain_results:none",
        "erasure": "diffmask.report.plain_results:none",
        "ground-truth": "diffmask.report.plain_results:none",
        "imagenet": "diffmask.report.cifar10:heat_maps",
        "needles": "diffmask.report.plain_results:none",
        "patch-counting": "diffmask.report.patch_counting:pictures",
        "performance": "diffmask.report.plain_results:none",
        "question-answering": "diffmask.report.question_answering:pictures",
        "sentiment": "diffmask.report.sentiment:pictures",
        "sparse-attention": "diffmask.report.sparse_attention:pictures",
        "stability": "diffmask.report.plain_results:none",
        "staying-true": "diffmask.report.staying_true:pictures",
        "trade-off": "diffmask.report.trade_off:pictures",
    },
)
