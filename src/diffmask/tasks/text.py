"""Text for any Hugging Face model: what is read from the model's output decides which prediction is preserved.

A unit is a token. Padding is never a unit; special tokens such as [CLS] are, as in the papers, unless `gate_special`
is off: they then keep their states and count nowhere.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import DataError
from ..types import Batch, Bernoulli, Categorical, Prediction, Value
from .task import Task

log = logging.getLogger(__name__)

Text = str | tuple[str, str]  # one text, or a pair such as question and passage


class TextTask(Task):
    """Texts, or pairs of texts, made into batches by a tokenizer."""

    def __init__(
        self,
        tokenizer: Any,
        train: Sequence[Text],
        validation: Sequence[Text],
        *,
        max_length: int | None = None,
        strict: bool = False,
        gate_special: bool = True,
    ) -> None:
        if getattr(tokenizer, "pad_token", None) is None:
            raise DataError(
                f"{type(tokenizer).__name__} has no padding token, so texts of different lengths make no batch: "
                "set one, e.g. tokenizer.pad_token = tokenizer.eos_token"
            )
        self.tokenizer, self.train, self.validation = tokenizer, train, validation
        self.max_length = min(max_length or tokenizer.model_max_length, tokenizer.model_max_length)
        self.strict, self.gate_special = strict, gate_special

    @abstractmethod
    def read(self, output: Any, batch: Batch) -> Prediction:
        """Read the prediction to preserve out of what the model returned for `batch`."""

    def collate(self, examples: Sequence[Text]) -> Batch:
        _check_texts(examples)
        self._check_length(examples)
        encoded = dict(self._encode(examples, padding=True, return_tensors="pt"))
        special = encoded.pop("special_tokens_mask").bool()
        valid = encoded["attention_mask"].bool()
        return Batch(encoded, valid if self.gate_special else valid & ~special)

    def units(self, examples: Sequence[Text]) -> list[list[str]]:
        batch = self.collate(examples)
        rows = zip(batch.inputs["input_ids"], batch.valid, strict=True)
        return [self.tokenizer.convert_ids_to_tokens(ids[valid].tolist()) for ids, valid in rows]

    def _encode(self, examples: Sequence[Text], **how: Any) -> Any:
        first = [text if isinstance(text, str) else text[0] for text in examples]
        second = None if isinstance(examples[0], str) else [text[1] for text in examples]
        cut = {"truncation": True, "max_length": self.max_length, "return_special_tokens_mask": True}
        return self.tokenizer(first, second, **{**cut, **how})

    def _check_length(self, examples: Sequence[Text]) -> None:
        """Say how much of a text that is too long is cut off, or refuse it when strict."""
        whole = self._encode(examples, truncation=False, verbose=False)["input_ids"]
        for text, ids in zip(examples, whole, strict=True):
            if len(ids) > self.max_length:
                begin = (text if isinstance(text, str) else text[0])[:40]
                message = f"a text has {len(ids)} tokens and the model takes {self.max_length}: '{begin}…'"
                if self.strict:
                    raise DataError(f"{message}; shorten it, or allow it to be cut with strict=False")
                log.warning("%s; its last %d tokens are not explained", message, len(ids) - self.max_length)


class TextClassification(TextTask):
    """Keep the distribution over labels, one of which is right."""

    def read(self, output: Any, batch: Batch) -> Prediction:
        return {"label": Categorical(output.logits)}


class MultiLabelClassification(TextTask):
    """Keep the probability of every label on its own, several of which may be right."""

    def read(self, output: Any, batch: Batch) -> Prediction:
        return {"labels": Bernoulli(output.logits)}


class TextRegression(TextTask):
    """Keep a number, such as a similarity or a score."""

    def read(self, output: Any, batch: Batch) -> Prediction:
        return {"value": Value(output.logits)}


class SpanAnswer(TextTask):
    """Keep where an answer starts and ends, as distributions over the real positions."""

    def read(self, output: Any, batch: Batch) -> Prediction:
        real = batch.inputs["attention_mask"].bool()
        heads = {"start": output.start_logits, "end": output.end_logits}
        return {name: Categorical(logits.masked_fill(~real, -torch.inf)) for name, logits in heads.items()}


class TokenClassification(TextTask):
    """Keep the label of every real token; what the model says about padding does not count."""

    def read(self, output: Any, batch: Batch) -> Prediction:
        return {"labels": Categorical(output.logits, real=batch.inputs["attention_mask"].bool())}


class NextToken(TextTask):
    """Keep the distribution over the next token of a causal language model."""

    def read(self, output: Any, batch: Batch) -> Prediction:
        return {"next token": Categorical(at_last_real(output.logits, batch.inputs["attention_mask"]))}


def at_last_real(values: Tensor, mask: Tensor) -> Tensor:
    """Take the row of the last real position of each example, padded left or right."""
    places = torch.arange(mask.shape[1], device=mask.device)
    last = (mask * places).argmax(1)
    return values[torch.arange(len(values), device=values.device), last]


def _check_texts(examples: Sequence[Text]) -> None:
    for text in examples:
        parts = (text,) if isinstance(text, str) else text
        if not all(isinstance(part, str) for part in parts):
            raise DataError(f"a text must be a string or a pair of strings, got {text!r}")
        if not any(part.strip() for part in parts):
            raise DataError("a text is empty: there is nothing to explain in it; filter such texts out of the data")
    if len({isinstance(text, str) for text in examples}) > 1:
        raise DataError("single texts and pairs are mixed in one batch: give all examples the same form")
