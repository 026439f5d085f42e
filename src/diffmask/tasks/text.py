"""Text for any Hugging Face model: what is read from the model's output decides which prediction is preserved."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch

from ..errors import DataError
from ..types import Batch, Bernoulli, Categorical, Prediction, Value
from .heads import LABELS, NUMBER, TOKEN_LABELS, TOKENS, at_last_real, head_of, logits_of, over_labels, written_apart
from .text_task import Encoded, TextTask
from .units import Kept as Kept
from .units import Text, ends_texts, parts_of, written_between


class TextClassification(TextTask):
    """Keep the distribution over labels, one of which is right."""

    labelled = True

    def read(self, output: Any, batch: Batch) -> Prediction:
        return {"label": Categorical(over_labels(output, self, LABELS))}


class MultiLabelClassification(TextTask):
    """Keep the probability of every label on its own, several of which may be right."""

    labelled = True

    def read(self, output: Any, batch: Batch) -> Prediction:
        return {"labels": Bernoulli(over_labels(output, self, LABELS, NUMBER))}


class TextRegression(TextTask):
    """Keep a number, such as a similarity or a score."""

    def read(self, output: Any, batch: Batch) -> Prediction:
        return {"value": Value(logits_of(output, self, NUMBER))}


class SpanAnswer(TextTask):
    """Keep where an answer starts and ends, over the real positions; an example is (question, passage), or segments."""

    pairs = True

    def encoded(self, text: Text) -> Encoded:
        if isinstance(text, str):
            raise DataError(
                f"an answer is looked for in a passage: give (question, passage), got the text {text[:40]!r} alone; on "
                "the command line, a table with --input, --text-column and --pair-column"
            )
        found = super().encoded(text)
        if isinstance(text, tuple) and not text[1].strip():
            raise DataError(f"the passage in which {text[0][:40]!r} is answered is empty: leave such examples out")
        return found

    def read_out(self, example: Any, decided: Mapping[str, Any]) -> str | None:
        if decided.keys() != {"start", "end"} or not self.tokenizer.is_fast:
            return None  # of a task that was derived from this one, or where nobody knows what is written
        found = self.tokenizer(*parts_of(example), truncation=True, max_length=self.max_length)
        return written_between(example, found.encodings[0], **decided)

    def read(self, output: Any, batch: Batch) -> Prediction:
        real = batch.inputs["attention_mask"].bool()
        heads = {name: head_of(output, f"{name}_logits", self) for name in ("start", "end")}
        return {name: Categorical(logits.masked_fill(~real, -torch.inf)) for name, logits in heads.items()}


class TokenClassification(TextTask):
    """Keep the label of every real token; what the model says about padding does not count."""

    labelled = True

    def read(self, output: Any, batch: Batch) -> Prediction:
        logits = over_labels(output, self, TOKEN_LABELS)
        return {"labels": Categorical(logits, real=batch.inputs["attention_mask"].bool())}


class NextToken(TextTask):
    """Keep the distribution over the next token of a language model; where it writes apart (T5, BART), over its first.

    A causal model has met the question only at the last token, so gates read the state there too; that token itself,
    and special ones such as BOS, where attention rests when it has nothing to do, are never gated.
    """

    def __init__(self, *args: Any, gate_special: bool = False, **settings: Any) -> None:
        super().__init__(*args, gate_special=gate_special, ask="last", **settings)
        self._ended = ends_texts(self.tokenizer)

    def read(self, output: Any, batch: Batch) -> Prediction:
        logits = logits_of(output, self, TOKENS)
        if written_apart(output):
            return {"next token": Categorical(logits[:, -1])}
        self.check_open()
        return {"next token": Categorical(at_last_real(logits, batch.inputs["attention_mask"]))}

    def check_open(self) -> None:
        """Refuse prompts that the tokenizer ends: what a causal model says then does not follow them."""
        if self._ended:
            raise DataError(
                f"{type(self.tokenizer).__name__} ends every prompt with {self.tokenizer.eos_token!r}, after which a "
                "causal model begins another text: load it with add_eos_token=False"
            )

    def names(self, indices: Collection[int]) -> Mapping[str, str]:
        return {str(index): self.tokenizer.decode([index]) for index in indices}
