"""Fine-tune a pretrained encoder on a study's task, once, and keep it in the study's directory."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..storage import write_file
from ..tasks.sst import read_sst
from .fine_tune import FineTuneConfig, fine_tune

FIGURES = "fine-tuned.json"  # written last: what has it is complete


def device() -> torch.device:
    """Return where studies run: a GPU if there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def clock(device: torch.device) -> float:
    """Read the clock when a GPU has finished what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def train_classifier(
    encoder: Path, data: Path, directory: Path, epochs: int, limit: int | None = None
) -> dict[str, Any]:
    """Fine-tune on the phrases of the treebank and their five classes, unless that is done; return what was measured.

    Phrases, not sentences alone: a model that has seen parts of sentences is asked nothing foreign by a mask.
    """
    if (directory / FIGURES).is_file():
        return dict(json.loads((directory / FIGURES).read_text()))
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(encoder)
    with torch.random.fork_rng():
        torch.manual_seed(0)  # of the new head
        model = AutoModelForSequenceClassification.from_pretrained(encoder, num_labels=5, dtype=torch.float32)
    train = list(dict(phrase for sentence in read_sst(data, "train")[:limit] for phrase in sentence.phrases).items())
    dev = [(sentence.text, sentence.label) for sentence in read_sst(data, "dev")[:limit]]
    found = fine_tune(
        model,
        Classified(tokenizer, train),
        len(train),
        FineTuneConfig(epochs, 64, 5e-5, bf16=True),
        lengths=[len(text) for text, _ in train],
        evaluate=lambda: measure_accuracy(model, tokenizer, dev),
        device=device(),
    )
    return keep(model, tokenizer, directory, {"dev_accuracy": found.score, "epoch": found.epoch + 1, "epochs": epochs})


def keep(model: Any, tokenizer: Any, directory: Path, figures: dict[str, Any]) -> dict[str, Any]:
    """Write a trained model with the figures that say it is complete."""
    model.to("cpu").save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    write_file(directory / FIGURES, json.dumps(figures).encode())
    return figures


def load_classifier(directory: Path) -> tuple[nn.Module, Any]:
    """Read a classifier and its tokenizer back, in float32."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(directory, dtype=torch.float32)
    return model.eval(), AutoTokenizer.from_pretrained(directory)


class Classified:
    """Makes a batch of labelled texts."""

    def __init__(self, tokenizer: Any, examples: Sequence[tuple[str, int]]) -> None:
        self.tokenizer, self.examples = tokenizer, examples

    def __call__(self, rows: list[int]) -> dict[str, Tensor]:
        texts, labels = zip(*(self.examples[row] for row in rows), strict=True)
        encoded = self.tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt")
        return {**encoded, "labels": torch.tensor(labels)}


@torch.no_grad()
def measure_accuracy(model: Any, tokenizer: Any, examples: Sequence[tuple[str, int]], batch_size: int = 64) -> float:
    """Return the share of labelled texts that a classifier in evaluation mode labels right."""
    ordered = sorted(examples, key=lambda example: len(example[0]))  # of like length together, for less padding
    batches, right = Classified(tokenizer, ordered), 0
    for start in range(0, len(ordered), batch_size):
        batch = batches(list(range(start, min(start + batch_size, len(ordered)))))
        batch = {name: value.to(model.device) for name, value in batch.items()}
        right += int((model(**batch).logits.argmax(1) == batch["labels"]).sum())
    return right / len(ordered)
