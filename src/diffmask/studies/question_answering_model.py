"""Fine-tune a pretrained encoder to point at answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..tasks.squad import Answered
from .fine_tune import FineTuneConfig, fine_tune
from .trained import FIGURES, device, keep

LONGEST = 384


def train_span_model(
    encoder: Path, train: Sequence[Answered], check: Sequence[Answered], directory: Path, epochs: int
) -> dict[str, Any]:
    """Fine-tune on the certain spans, unless that is done, and return what was measured."""
    if (directory / FIGURES).is_file():
        return dict(json.loads((directory / FIGURES).read_text()))
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(encoder, model_max_length=LONGEST)
    with torch.random.fork_rng():
        torch.manual_seed(0)  # of the new head
        model = AutoModelForQuestionAnswering.from_pretrained(encoder, dtype=torch.float32)
    batches = Spans(tokenizer, train)
    how = FineTuneConfig(epochs, 32, 1e-4, bf16=True)
    found = fine_tune(model, batches, len(train), how, lengths=batches.lengths, device=device())
    figures = {"exact": measure_exact(model, tokenizer, check), "loss": found.losses[-1], "questions": len(train)}
    return keep(model, tokenizer, directory, {**figures, "epochs": epochs})


def load_span_model(directory: Path, longest: int) -> tuple[nn.Module, Any]:
    """Read a span model and its tokenizer back, in float32."""
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    model = AutoModelForQuestionAnswering.from_pretrained(directory, dtype=torch.float32)
    return model.eval(), AutoTokenizer.from_pretrained(directory, model_max_length=longest)


def token_span(tokenizer: Any, asked: Answered, longest: int) -> tuple[int, int]:
    """Return the first and last token of the first certain answer; (0, 0) if it was cut off."""
    encoded = tokenizer(*asked.pair, truncation=True, max_length=longest)
    start, end = asked.spans[0]
    first, last = encoded.char_to_token(0, start, 1), encoded.char_to_token(0, end - 1, 1)
    return (0, 0) if first is None or last is None else (first, last)


class Spans:
    """Makes a training batch of answered questions."""

    def __init__(self, tokenizer: Any, questions: Sequence[Answered]) -> None:
        self.tokenizer = tokenizer
        encoded = tokenizer([q.question for q in questions], [q.passage for q in questions], truncation=True)
        self.inputs = [{name: encoded[name][row] for name in encoded} for row in range(len(questions))]
        self.spans = torch.tensor([token_span(tokenizer, q, LONGEST) for q in questions])

    @property
    def lengths(self) -> list[int]:
        return [len(row["input_ids"]) for row in self.inputs]

    def __call__(self, rows: list[int]) -> dict[str, Tensor]:
        padded = self.tokenizer.pad([self.inputs[row] for row in rows], return_tensors="pt")
        return {**padded, "start_positions": self.spans[rows, 0], "end_positions": self.spans[rows, 1]}


@torch.no_grad()
def measure_exact(model: Any, tokenizer: Any, questions: Sequence[Answered]) -> float:
    """Return the share of questions whose first certain span is found to the token."""
    spans, right = Spans(tokenizer, questions), 0
    for start in range(0, len(questions), 64):
        batch = {k: v.to(model.device) for k, v in spans(list(range(start, min(start + 64, len(questions))))).items()}
        output, pad = model(**batch), batch["attention_mask"] == 0
        heads = (output.start_logits, output.end_logits)
        first, last = (logits.masked_fill(pad, -torch.inf).argmax(1) for logits in heads)
        right += int(((first == batch["start_positions"]) & (last == batch["end_positions"])).sum())
    return right / len(questions)
