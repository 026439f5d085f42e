"""Texts for any Hugging Face model, made into batches by its tokenizer.

A unit is a token, a word, a sentence or a segment of the user's. Padding is never a unit; special tokens such as [CLS],
added by the tokenizer or written in the text, are, as in the papers, unless `gate_special` is off: they then keep their
states and count nowhere.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from ..errors import DataError
from ..types import Batch, Prediction
from .checks import (
    check_choice,
    check_count,
    check_fast,
    check_keep,
    check_length,
    check_part,
    check_segments,
    check_text,
    check_tokenizer,
    longest_padded,
    names_of,
)
from .few import TEXTS
from .task import Task, check_numbered
from .units import Kept as Kept
from .units import Text, Unit, always_kept, group, held, parts_of, special_ids

log = logging.getLogger(TEXTS)

LONGEST = 1 << 30


@dataclass(frozen=True)
class Encoded:
    """One text as the model takes it, the unit of each position (−1: always kept), and the names of the units.

    `cut` is the number of tokens at its end that the model does not take.
    """

    inputs: dict[str, list[int]]
    place: list[int]
    names: list[str]
    ask: int | None = None
    cut: int = 0


class TextTask(Task):
    """Texts, pairs of texts or lists of segments, made into batches by a tokenizer.

    `keep` names words that are never dropped, nor the unit that holds one; of a pair, `gate` may name the one part that
    is gated. Gates read the state of their unit; where a prediction is made at one position, they may read the state
    there too, and `ask` says at which; and the mean state of units on each side, and `around` says of how many.
    `labels` names the indices the model answers with, for whoever reads. Batches are padded to a multiple of `pad_to`
    tokens, for models such as Longformer that would lengthen them themselves, to whole windows.
    """

    pairs: bool = False  # whether an example has to be a pair

    def __init__(
        self,
        tokenizer: Any,
        train: Sequence[Any],
        validation: Sequence[Any],
        *,
        unit: Unit = "token",
        keep: Collection[str] = (),
        gate: Literal["all", "first", "second"] = "all",
        gate_special: bool = True,
        ask: Literal["nowhere", "first", "last"] = "nowhere",
        around: int = 0,
        pad_to: int = 1,
        max_length: int | None = None,
        strict: bool = False,
        labels: Sequence[str] | None = None,
    ) -> None:
        check_choice("unit", unit, get_args(Unit))
        check_choice("part to gate", gate, ("all", "first", "second"))
        check_choice("place to ask", ask, ("nowhere", "first", "last"))
        check_keep(keep)
        check_count("around", around, 0)
        check_count("max_length", LONGEST if max_length is None else max_length)
        check_tokenizer(tokenizer, unit, gate)
        check_numbered(train)
        check_numbered(validation)
        self.tokenizer, self.train, self.validation = tokenizer, train, validation
        # A tokenizer that knows no limit says 10^30, which is no number of tokens.
        self.max_length = min(LONGEST if max_length is None else max_length, tokenizer.model_max_length, LONGEST)
        check_length(tokenizer, self.max_length, self.pairs)
        self.max_length = longest_padded(self.max_length, pad_to)
        self.unit, self.keep, self.gate = unit, frozenset(word.lower() for word in keep), gate
        self.strict, self.gate_special, self.ask, self.labels = strict, gate_special, ask, names_of(labels)
        self.around, self.pad_to = around, pad_to
        self._special = special_ids(tokenizer)
        self._seen: dict[Any, Encoded] = {}

    def limit(self, units: int) -> None:
        if units < self.max_length:
            self.max_length = longest_padded(units, self.pad_to)
            self.forget()

    @abstractmethod
    def read(self, output: Any, batch: Batch) -> Prediction:
        """Read the prediction to preserve out of what the model returned for `batch`."""

    def collate(self, examples: Sequence[Any]) -> Batch:
        encoded = [self.encoded(text) for text in examples]
        # On the right whatever the tokenizer is set to: absolute positions are counted from the left, padding included,
        # and encoders answer at the first, so padding there would make an example depend on its batch mates.
        how = {"padding": True, "padding_side": "right", "return_attention_mask": True, "return_tensors": "pt"}
        padded = self.tokenizer.pad([e.inputs for e in encoded], pad_to_multiple_of=self.pad_to, **how)
        place = pad_sequence([torch.tensor(e.place) for e in encoded], batch_first=True, padding_value=-1)
        place = pad(place, (0, padded["attention_mask"].shape[1] - place.shape[1]), value=-1)
        asks = [e.ask for e in encoded if e.ask is not None]
        ask = torch.tensor(asks) if asks else None
        if self.unit == "token":
            return Batch(dict(padded), place >= 0, ask=ask)
        counts = torch.tensor([len(e.names) for e in encoded]).unsqueeze(1)
        return Batch(dict(padded), torch.arange(int(counts.max())) < counts, place, ask)

    def lengths(self, examples: Sequence[Any]) -> Sequence[int]:
        return [len(self.encoded(text).place) for text in examples]

    def units(self, examples: Sequence[Any]) -> list[list[str]]:
        return [self.encoded(text).names for text in examples]

    def encoded(self, text: Text) -> Encoded:
        """Encode a text, once: a fit meets each many times."""
        if not isinstance(text, str | tuple | list):
            check_text(text)  # which says what is wrong; as a key it might not serve
        key = ("segments", *((piece, type(piece)) for piece in text)) if isinstance(text, list) else text
        if key not in self._seen:
            self._seen[key] = self._encode(text)
        return self._seen[key]

    def cut(self, example: Any) -> int:
        return self.encoded(example).cut

    def forget(self) -> None:
        self._seen.clear()

    def _encode(self, text: Text) -> Encoded:
        check_text(text)
        check_part(text, self.gate)
        if self.unit == "segment":
            check_segments(text)
        if isinstance(text, list) and any(isinstance(piece, Kept) for piece in text):
            check_fast(self.tokenizer, "Kept")
        wanted = {"return_attention_mask": True, "return_special_tokens_mask": True}  # not every tokenizer's own wish
        found = self.tokenizer(*parts_of(text), truncation=True, max_length=self.max_length, **wanted)
        cut = self._check_length(text, found)
        added = found.pop("special_tokens_mask")
        special = [mark or number in self._special for mark, number in zip(added, found["input_ids"], strict=True)]
        tokens = self.tokenizer.convert_ids_to_tokens(found["input_ids"])
        encoding = found.encodings[0] if found.is_fast else None
        groups = group(text, self.unit, encoding, tokens, special)
        kept = held(text, self.keep, encoding, groups)
        parts = found.sequence_ids(0) if found.is_fast else [0] * len(tokens)
        ask = {"nowhere": None, "first": 0, "last": len(tokens) - 1}[self.ask]
        never = always_kept(text, encoding) if encoding else set()
        if ask is not None and self.ask == "last":
            never.add(ask)
        gated = [
            number >= 0 and number not in kept and i not in never and self._gated(bool(special[i]), parts[i])
            for i, number in enumerate(groups.place)
        ]
        return replace(_renumbered(dict(found), groups.place, groups.names, gated, ask), cut=cut)

    def _gated(self, special: bool, part: int | None) -> bool:
        if special:
            return self.gate_special
        return self.gate == "all" or part == ("first", "second").index(self.gate)

    def _check_length(self, text: Text, found: Any) -> int:
        """Say how much of a text that is too long is cut off, or refuse it: when strict, or where it must be kept."""
        whole = self.tokenizer(*parts_of(text), verbose=False)
        count = len(whole["input_ids"])
        if count <= self.max_length:
            return 0
        check_length(self.tokenizer, self.max_length, isinstance(text, tuple))
        message = f"a text has {count} tokens and the model takes {self.max_length}: '{parts_of(text)[0][:40]}…'"
        if self.strict:
            raise DataError(f"{message}; shorten it, or allow it to be cut by not being strict")
        kept = [len(always_kept(text, each.encodings[0])) for each in (whole, found) if each.is_fast]
        if len(set(kept)) > 1:
            raise DataError(f"{message}; what would be cut off is in a segment that is Kept: shorten the others")
        log.warning("%s; %d of them are cut off and not explained", message, count - self.max_length)
        return count - self.max_length


def _renumbered(
    inputs: dict[str, Any], place: Sequence[int], names: Sequence[str], gated: Sequence[bool], ask: int | None
) -> Encoded:
    """Leave out the units of which no position is gated, and number the rest anew."""
    kept = sorted({number for number, open_ in zip(place, gated, strict=True) if open_})
    new = {number: i for i, number in enumerate(kept)}
    places = [new[number] if open_ else -1 for number, open_ in zip(place, gated, strict=True)]
    return Encoded(inputs, places, [names[number] for number in kept], ask)
