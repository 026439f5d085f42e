"""⑪ The papers' experiments: each composes the rooms and writes a result file."""

from __future__ import annotations

from ..registry import Registry

STUDIES = Registry(
    "study",
    {
        "answer-alone": "diffmask.studies.answer_alone:run",
        "cifar10": "diffmask.studies.cifar10:run",
        "digits": "diffmask.studies.digits:run",
        "embedded-model": "diffmask.studies.embedded_probes:run",
        "erasure": "diffmask.studies.erasure:run",
        "ground-truth": "diffmask.studies.ground_truth:run",
        "imagenet": "diffmask.studies.imagenet:run",
        "needles": "diffmask.studies.needles:run",
        "patch-counting": "diffmask.studies.patch_counting:run",
        "question-answering": "diffmask.studies.question_answering:run",
        "sentiment": "diffmask.studies.sentiment:run",
        "sparse-attention": "diffmask.studies.sparse_attention:run",
        "stability": "diffmask.studies.stability:run",
        "staying-true": "diffmask.studies.staying_true:run",
        "trade-off": "diffmask.studies.trade_off:run",
    },
)
