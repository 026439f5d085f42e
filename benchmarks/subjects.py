"""The models that are timed, at their real sizes: an encoder, a vision model and a decoder.

Weights are read where they are (DIFFMASK_WEIGHTS, /work/weights by default) and drawn at random elsewhere: what a
pass costs depends on their shapes alone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from diffmask.gates.probe import make_probe
from diffmask.gates.voter import LinearVoter
from diffmask.models.adapter import Adapter
from diffmask.models.adapting import adapt
from diffmask.settings import change
from diffmask.tasks.tensors import TensorTask
from diffmask.training.config import FitConfig, recipe
from diffmask.training.fit import Fit
from diffmask.types import Batch, Categorical, Prediction

WEIGHTS = Path(os.environ.get("DIFFMASK_WEIGHTS", "/work/weights"))
BATCH, UNITS = 64, 32
LARGE = 1024  # examples that keep a GPU busy: what launching kernels takes is then no part of the time


@dataclass(frozen=True)
class Subject:
    """A model with examples for it."""

    name: str
    weights: str
    model: Adapter
    task: TensorTask
    width: int

    def batch(self, count: int = BATCH) -> Batch:
        return self.task.collate([row % BATCH for row in range(count)]).to(self.model.device)

    def read(self, batch: Batch) -> Prediction:
        """Run the model."""
        return self.task.read(self.model(batch), batch)

    def fit(self, config: FitConfig | None = None, **changes: Any) -> Fit:
        """Return a probe with opinions, as if it had been fitted."""
        settings = change(config or recipe("text"), changes)
        sites = self.model.sites.names
        probe = make_probe(sites, [self.width] * len(sites), settings.probe).to(self.model.device)
        for voter in probe.voters:
            nn.init.normal_(voter.weights if isinstance(voter, LinearVoter) else voter.last.weight, std=0.3)
        return Fit(self.model, self.task, probe, settings, [], [], [], "")


def minilm(device: str, dtype: torch.dtype = torch.float32, units: int = UNITS, layers: int = 6) -> Subject:
    """Make a classifier on all-MiniLM-L6."""
    from transformers import BertConfig, BertForSequenceClassification
    from transformers.utils import logging

    logging.set_verbosity_error()
    place, whole = WEIGHTS / "minilm", layers == 6 and units <= 512
    torch.manual_seed(0)
    if place.is_dir() and whole:
        model = BertForSequenceClassification.from_pretrained(place, num_labels=5, local_files_only=True)
    else:
        shape = {"hidden_size": 384, "num_attention_heads": 12, "intermediate_size": 1536, "num_labels": 5}
        model = BertForSequenceClassification(BertConfig(num_hidden_layers=layers, **shape))
    model = model.to(device, dtype).eval()
    return _text("MiniLM", "all-MiniLM-L6" if place.is_dir() and whole else "random", model, 384, units)


def smollm2(device: str, dtype: torch.dtype = torch.float32, units: int = UNITS) -> Subject:
    """Make a decoder of the shape of SmolLM2-135M."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    heads = {"num_attention_heads": 9, "num_key_value_heads": 3}
    config = LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, **heads, use_cache=False
    )
    return _text("SmolLM2", "random", LlamaForCausalLM(config).to(device, dtype).eval(), 576, units, last=True)


def vit(device: str, dtype: torch.dtype = torch.float32) -> Subject:
    """Make a ViT-S/16 on images of 224 pixels."""
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    shape = {"hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 6, "intermediate_size": 1536}
    model = ViTForImageClassification(ViTConfig(**shape, num_labels=10)).to(device, dtype).eval()
    pixels = torch.randn(2 * BATCH, 3, 224, 224)
    valid = torch.ones(2 * BATCH, 196, dtype=torch.bool)
    task = TensorTask({"pixel_values": pixels}, valid, lambda out: {"label": Categorical(out.logits)})
    return Subject("ViT-S", "random", adapt(model), task, 384)


def _text(name: str, weights: str, model: nn.Module, width: int, units: int, last: bool = False) -> Subject:
    ids = torch.randint(1000, 29000, (2 * BATCH, units), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    names = [[str(i) for i in range(units)]] * len(ids)

    def read(out: Any) -> dict[str, Categorical]:
        return {"label": Categorical(out.logits[:, -1] if last else out.logits)}

    task = TensorTask(
        {"input_ids": ids, "attention_mask": mask}, mask.bool(), read, validation_count=BATCH, units=names
    )
    return Subject(name, weights, adapt(model), task, width)
