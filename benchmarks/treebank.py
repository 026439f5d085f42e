"""What a whole fit of the sentiment treebank's size costs, against what the reference code would compute."""

from __future__ import annotations

import statistics
from typing import Any

import torch
from torch import Tensor

from diffmask.models.sites import replace
from diffmask.settings import change
from diffmask.studies.sentiment import FULL, Job, config
from diffmask.tasks.tensors import TensorTask
from diffmask.training.fit import fit
from diffmask.types import Categorical

from .clock import seconds
from .subjects import Subject, minilm

REFERENCE = {"batch": 64, "padded": 84, "epochs": 300, "sentences": 8544}  # De Cao et al. (2020), their SST code
OURS = config(Job(seed=0), FULL)
LENGTHS = (22, 10, 5, 60)  # tokens of a treebank sentence: mean, spread, least, most


def whole_fit(device: str, share: int) -> dict[str, Any]:
    """Time a fit of the treebank's size with the study's settings, or a `share`-th of it, against the reference's.

    Sentences are random, of the treebank's lengths: a step costs the same. That these settings reach
    the paper's quality on the treebank itself is in results/sentiment.json.
    """
    subject = minilm(device)
    task = Treebank(REFERENCE["sentences"] // share)
    settings = {
        "steps": OURS.steps // share,
        "ablation_steps": max(1, FULL.ablation_steps // share),
        "validation_limit": max(8, OURS.validation_limit // share),
        "margin": 10.0,  # a random model has little to lose
        "cache": "memory" if share == 1 else "off",
    }
    ours = share * seconds(lambda: fit(subject.model, task, change(OURS, settings)))
    batches = REFERENCE["epochs"] * -(-REFERENCE["sentences"] // REFERENCE["batch"])
    times = [_reference_batch(subject) for _ in range(4)][1:]
    theirs = batches * statistics.median(times)
    return {
        "part": "whole fit",
        "model": subject.name,
        "measure": "reference ÷ ours",
        "ratio": theirs / ours,
        "seconds": ours,
        "reference_seconds": theirs,
        "reference_batches": batches,
        "share_measured": 1 / share,
    }


class Treebank(TensorTask):
    """Sentences of random tokens, padded to the longest of their batch."""

    def __init__(self, count: int) -> None:
        mean, spread, least, most = LENGTHS
        draw = torch.Generator().manual_seed(0)
        self.counts = (torch.randn(count, generator=draw) * spread + mean).round().long().clamp(least, most)
        self.known: list[int] = self.counts.tolist()
        ids = torch.randint(1000, 29000, (count, most), generator=draw)
        valid = torch.arange(most) < self.counts.unsqueeze(1)
        inputs = {"input_ids": ids * valid, "attention_mask": valid.long()}
        super().__init__(inputs, valid, lambda out: {"label": Categorical(out.logits)}, max(1, count // 8))

    def lengths(self, examples: Any) -> list[int]:
        return [self.known[i] for i in examples]

    def collate(self, examples: Any) -> Any:
        width = max(self.lengths(examples))
        batch = super().collate(examples)
        return type(batch)({name: t[:, :width] for name, t in batch.inputs.items()}, batch.valid[:, :width])


def _reference_batch(subject: Subject) -> float:
    """Time what the reference code computes for a batch: two original and two masked passes, and one backward."""
    device = subject.model.device
    ids = torch.randint(1000, 29000, (REFERENCE["batch"], REFERENCE["padded"]), device=device)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    site, model = subject.model.sites[0], subject.model.model

    def run() -> None:
        for learns in (True, False):
            with torch.no_grad():
                model(**inputs)
            state: Tensor = site.module(ids).detach().requires_grad_(learns)
            with torch.set_grad_enabled(learns), replace(site, state):
                out = model(**inputs).logits.sum()
            if learns:
                torch.autograd.backward(out)

    with subject.model.frozen():
        return seconds(run)
