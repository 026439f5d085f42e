"""What a causal language model says next, several tokens of it: which parts of the prompt made it say that?

The model's own continuation is given back to it token by token (teacher forcing), and each of the distributions it was
chosen from has to be kept; their divergences add up, so a margin is in nats for the continuation as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from ..errors import DataError, ModelError, SettingError
from ..types import Batch, Categorical, Prediction
from .checks import check_text
from .heads import TOKENS, logits_of, written_apart
from .text import NextToken
from .text_task import Encoded
from .units import Template, Text, parts_of, special_ids

Continued = tuple[Text, str]  # a prompt, as a text or as segments, and what follows


class Said(str):
    """What a model said, with the tokens in which it did: its text alone could be cut in another way."""

    ids: tuple[int, ...]

    def __new__(cls, text: str, ids: Sequence[int]) -> Said:
        said = super().__new__(cls, text)
        said.ids = tuple(ids)
        return said

    def __reduce__(self) -> tuple[type[Said], tuple[str, Sequence[int]]]:
        return Said, (str(self), self.ids)


class Continuation(NextToken):
    """Keep the distribution over each token of a given continuation; an example is (prompt, continuation)."""

    pairs = True

    def encoded(self, text: Any) -> Encoded:
        """Encode the prompt, and add the tokens of the continuation, which are never gated."""
        if not isinstance(text, tuple) or len(text) != 2 or not isinstance(text[1], str) or not text[1]:
            raise DataError(
                f"a continuation takes (prompt, what follows), got {text!r}: give both, on the command line with "
                "--text-column and --pair-column, or let the model write it, with own_continuations()"
            )
        prompt = super().encoded(text[0])
        added = self._tokens(text[1])
        self._check_room(text, len(prompt.place), len(added))
        fillers = {"input_ids": added, "attention_mask": [1] * len(added)}
        inputs = {name: ids + fillers.get(name, [0] * len(added)) for name, ids in prompt.inputs.items()}
        return replace(prompt, inputs=inputs, place=prompt.place + [-1] * len(added))

    def _tokens(self, after: str) -> list[int]:
        if isinstance(after, Said):
            return list(after.ids)
        return list(self.tokenizer(after, add_special_tokens=False)["input_ids"])

    def _check_room(self, text: Any, prompt: int, added: int) -> None:
        if not added:
            raise DataError(f"the continuation {text[1]!r} has no tokens, so nothing is to be preserved: leave it out")
        _check_sum(prompt, added, self.max_length)

    def read(self, output: Any, batch: Batch) -> Prediction:
        if written_apart(output):
            raise ModelError(_no_prompt("the model"))
        self.check_open()
        assert batch.ask is not None  # every example of this task asks at the last token of its prompt
        mask, rows = batch.inputs["attention_mask"], torch.arange(len(batch), device=batch.ask.device)
        last = (mask * torch.arange(mask.shape[1], device=mask.device)).argmax(1)
        steps = torch.arange(int((last - batch.ask).max()), device=batch.ask.device)
        places = (batch.ask.unsqueeze(1) + steps).clamp_max(mask.shape[1] - 1)
        real = steps < (last - batch.ask).unsqueeze(1)
        logits = logits_of(output, self, TOKENS)
        return {"continuation": Categorical(logits[rows.unsqueeze(1), places], real)}


def _no_prompt(model: str) -> str:
    return (
        f"{model} writes its answer apart from what it reads (an encoder–decoder), so no answer continues a prompt: "
        "NextToken explains the first token that it writes"
    )


def _check_sum(prompt: int, added: int, most: int) -> None:
    if prompt + added > most:
        raise DataError(
            f"a prompt of {prompt} tokens and its continuation of {added} are more than the {most} the model takes: "
            "shorten the prompt"
        )


@torch.no_grad()
def own_continuations(model: Any, tokenizer: Any, prompts: Sequence[Text], tokens: int = 8) -> list[Continued]:
    """Let the model, adapted or not, continue each prompt, always with its likeliest token."""
    writer = model.model if hasattr(model, "sites") else model
    if not isinstance(tokens, int) or tokens < 1:
        raise SettingError(f"tokens must be at least 1, got {tokens!r}: it says how many the model writes")
    if getattr(writer, "generation_config", None) is None:
        raise ModelError(f"{type(writer).__name__} writes no text: load a model that does, AutoModelForCausalLM")
    if writer.config.is_encoder_decoder:
        raise ModelError(_no_prompt(type(writer).__name__))
    task = NextToken(tokenizer, prompts, prompts)
    task.check_open()
    most = min(task.max_length, _positions(model) or task.max_length)
    for prompt in prompts:
        check_text(prompt)
        _check_sum(len(tokenizer(*parts_of(prompt), verbose=False)["input_ids"]), tokens, most)
    with _greedily(writer, tokens, tokenizer.pad_token_id):
        return [(prompt, _said_after(prompt, writer, task)) for prompt in prompts]


def _said_after(prompt: Text, writer: Any, task: NextToken) -> Said:
    inputs = {name: value.to(writer.device) for name, value in task.collate([prompt]).inputs.items()}
    written = writer.generate(**inputs)[0, inputs["input_ids"].shape[1] :].tolist()
    while written and written[-1] in special_ids(task.tokenizer):  # the end of the text is no part of it
        written.pop()
    said = Said(task.tokenizer.decode(written, skip_special_tokens=True), written)
    if not said.strip():
        raise DataError(f"the model says nothing after the prompt {str(prompt)[:60]!r}…: leave that prompt out")
    return said


@contextmanager
def _greedily(writer: Any, tokens: int, padding: int) -> Iterator[None]:
    """Let a model generate as many of its likeliest tokens, however it is set to do, and put everything back."""
    before, trained = writer.generation_config, [module for module in writer.modules() if module.training]
    end = {"eos_token_id": before.eos_token_id, "pad_token_id": padding}
    try:
        writer.eval().generation_config = type(before)(max_new_tokens=tokens, do_sample=False, **end)
        yield
    finally:
        writer.generation_config = before
        for module in trained:
            module.training = True


def _positions(model: Any) -> int | None:
    """Return how many tokens a model takes: an adapter knows it, of a bare model the configuration says it."""
    said = getattr(model, "positions", None) or getattr(getattr(model, "config", None), "max_position_embeddings", None)
    return said if isinstance(said, int) and said > 0 else None


def in_chat(tokenizer: Any, segments: Iterable[str], **settings: Any) -> list[str]:
    """Put segments into the tokenizer's chat template, whose own words are never gated."""
    if getattr(tokenizer, "chat_template", None) is None:
        raise DataError(f"{type(tokenizer).__name__} has no chat template: give its model plain prompts")
    mark = "@@segments@@"
    asked = [{"role": "user", "content": mark}]
    made = tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True, **settings)
    if made.count(mark) != 1:
        raise DataError(
            f"the chat template shows what the user says {made.count(mark)} times, and segments stand in one place: "
            "build the prompt yourself, with Kept(…) for what must stay"
        )
    before, after = made.split(mark)
    begin = tokenizer.bos_token if tokenizer("")["input_ids"][:1] == [tokenizer.bos_token_id] else None
    before = before.removeprefix(begin) if begin else before  # the tokenizer adds it itself
    return [*([Template(before)] if before else []), *segments, *([Template(after)] if after else [])]
