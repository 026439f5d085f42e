"""What a whole fit of the sentiment treebank's size costs, against what the reference code would compute."""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any

import torch
from torch import Tensor

from diffmask.models.sites import replace
from diffmask.settings import change
from diffmask.studies.sentiment import FULL, Job, config
from diffmask.tasks.tensors import TensorTask
from diffmask.training.config import FitConfig
from diffmask.training.fit import fit
from diffmask.types import Categorical

from .clock import seconds
from .subjects import Subject, minilm

REFERENCE = {"batch": 64, "padded": 84, "epochs": 300, "sentences": 8544}  # De Cao et al. (2020), their SST code
OURS = config(Job(seed=0), FULL)
LENGTHS = (22, 10, 5, 60)  # tokens of a treebank sentence: mean, spread, least, most


def whole_fit(device: str, share: int) -> dict[str, Any]:
    """Time a fit of the treebank's size with the study's settings, against the reference's procedure.

    Of what a fit does again and again, a `share`-th is timed; what it does once is timed alone, and counted once.
    Sentences are random, of the treebank's lengths: a step costs the same. What quality the settings reach on the
    treebank itself is for results/sentiment.json to say.
    """
    subject, task = minilm(device), Treebank(REFERENCE["sentences"])
    _reference_batch(subject)  # warms up
    before = [_reference_batch(subject) for _ in range(2)]
    once, some = (seconds(partial(fit, subject.model, task, _part(part))) for part in (0.0, 1 / share))
    ours = once + share * (some - once)
    batches = REFERENCE["epochs"] * -(-REFERENCE["sentences"] // REFERENCE["batch"])
    theirs = batches * statistics.median([*before, *(_reference_batch(subject) for _ in range(2))])
    return {
        "part": "whole fit",
        "model": subject.name,
        "measure": "reference ÷ ours",
        "ratio": theirs / ours,
        "seconds": ours,
        "seconds_once": once,
        "reference_seconds": theirs,
        "reference_batches": batches,
        "share_measured": 1 / share,
    }


def _part(part: float) -> FitConfig:
    """Return the study's settings with one step and a `part` of the others, and as little else."""
    settings = {
        "steps": 1 + int(part * OURS.steps),
        "ablation_steps": 1 + int(part * FULL.ablation_steps),
        "validation_limit": 8 + int(part * OURS.validation_limit),
        "margin": 10.0,  # a random model has little to lose
        "cache": "memory" if part == 1 else "off",
        "precision": "as loaded",  # as the reference is run
    }
    return change(OURS, settings)


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
