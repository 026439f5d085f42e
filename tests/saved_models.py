"""Tiny models on disk, one for each kind of task, as a person has them: with tokenizer or image processor beside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

from diffmask.training.config import FitConfig, recipe
from tiny_text import SIZES, make_model, make_tokenizer, make_writer
from tiny_vision import build

BERTS = {
    "classification": "BertForSequenceClassification",
    "multi-label": "BertForSequenceClassification",
    "regression": "BertForSequenceClassification",
    "token": "BertForTokenClassification",
    "span": "BertForQuestionAnswering",
}
WRITERS = ("t5", "bart")  # these do next-token too
LABELS = {"id2label": {0: "bad", 1: "fair", 2: "good"}, "label2id": {"bad": 0, "fair": 1, "good": 2}}
TEXTS = ["a funny movie .", "a fast enjoyable movie", "fast . funny movie"]
SHORT = {"margin": 1.0, "steps": 2, "batch_size": 4, "ablation_steps": 2, "guard": False}


def save_model(directory: Path, kind: str, seed: int = 0) -> Path:
    """Save a tiny random model that does tasks of this kind."""
    if kind == "image":
        build("ViTForImageClassification", seed=seed, **LABELS).save_pretrained(directory)
        size = {"height": 12, "width": 20}
        transformers.ViTImageProcessor(size=size).save_pretrained(directory)
    elif kind in BERTS:
        _bert(kind, seed).save_pretrained(directory)
        make_tokenizer().save_pretrained(directory)
    elif kind in WRITERS:
        make_writer(kind, seed).save_pretrained(directory)
        make_tokenizer(model_input_names=["input_ids", "attention_mask"]).save_pretrained(directory)
    else:
        make_model("llama", seed).save_pretrained(directory)
        make_tokenizer("left", causal=True).save_pretrained(directory)
    return directory


def _bert(kind: str, seed: int) -> Any:
    torch.manual_seed(seed)
    names = {"num_labels": 1} if kind == "regression" else {} if kind == "span" else LABELS
    problem = {"problem_type": "multi_label_classification"} if kind == "multi-label" else {}
    return getattr(transformers, BERTS[kind])(transformers.BertConfig(**SIZES, **names, **problem)).eval()


def short(**changes: object) -> FitConfig:
    """A recipe of two steps, which finds nothing yet."""
    return recipe(**{**SHORT, **changes})
