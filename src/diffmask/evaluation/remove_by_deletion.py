"""A removed unit's tokens are really gone: the model reads the shorter text, whose positions close up.

Token ids are deleted, never decoded and cut anew: that would change tokens nobody removed. Special tokens stay, units
or not: a text without its [CLS] is none the model knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..attribution.method import Question
from ..errors import DataError
from ..types import Batch, Prediction, split_prediction
from .removal import Removal, check_rows, check_whole, parts


@dataclass(frozen=True)
class ByDeletion(Removal):
    """The text without the removed tokens."""

    name = "deletion"
    rows: Annotated[int, "rows in one pass, one per mask and example; never fewer than the batch has"] = 256

    def __post_init__(self) -> None:
        check_rows(self.name, self.rows)

    @torch.no_grad()
    def __call__(self, question: Question, keeps: Float[Tensor, "copy batch unit"]) -> list[Prediction]:
        check_whole(self.name, keeps)
        _check_text(question)
        with question.model.frozen():
            _check_prediction(question)
            return [found for part in parts(keeps, self.rows) for found in _run(question, part)]


def _run(question: Question, keeps: Float[Tensor, "copy batch unit"]) -> list[Prediction]:
    return split_prediction(_read(question, question.batch.repeat(len(keeps)), keeps.flatten(0, 1)), len(keeps))


def _read(question: Question, batch: Batch, keep: Float[Tensor, "batch unit"]) -> Prediction:
    shorter = shorten(batch, keep, question.task.tokenizer)  # type: ignore[attr-defined]
    return question.task.read(question.model(shorter), shorter)


def shorten(batch: Batch, keep: Float[Tensor, "batch unit"], tokenizer: Any) -> Batch:
    """Delete the tokens of removed units and close the gaps; units keep their numbers."""
    ids, real = batch.inputs["input_ids"], batch.inputs["attention_mask"].bool()
    stay = real & ((batch.spread(keep) == 1) | torch.isin(ids, _special(tokenizer, ids)))
    empty = ~stay.any(1)
    # A model cannot read nothing: a text of which nothing is left is one token that says nothing.
    stay[empty, real[empty].int().argmax(1)] = True
    inputs = {**batch.inputs, "input_ids": torch.where(empty.unsqueeze(1), _nothing(tokenizer), ids)}
    order, there = _closed_up(stay)
    fill = {"input_ids": tokenizer.pad_token_id, "token_type_ids": getattr(tokenizer, "pad_token_type_id", 0)}
    for name, tensor in inputs.items():
        if _per_position(batch, name, tensor):
            inputs[name] = _moved(tensor, order, there, fill.get(name, 0))
    places = torch.where(batch.valid, _numbers(batch), -1) if batch.place is None else batch.place
    return Batch(inputs, batch.valid, _moved(places, order, there, -1), _ask(batch, stay))


def _closed_up(
    stay: Bool[Tensor, "batch position"],
) -> tuple[Int[Tensor, "batch shorter"], Bool[Tensor, "batch shorter"]]:
    """Return from where each position of the shorter texts comes, and which of them are no padding."""
    order = (~stay).int().argsort(dim=1, stable=True)[:, : int(stay.sum(1).max())]
    return order, stay.gather(1, order)


def _moved(tensor: Tensor, order: Tensor, there: Tensor, fill: int) -> Tensor:
    moved = tensor[torch.arange(len(order), device=order.device).unsqueeze(1), order]
    return torch.where(there.view(*there.shape, *[1] * (moved.dim() - 2)), moved, torch.full_like(moved, fill))


def _ask(batch: Batch, stay: Tensor) -> Int[Tensor, " batch"] | None:
    """Follow the position where the prediction is made; if it is gone, the one before it takes over."""
    if batch.ask is None:
        return None
    before = (stay & (_positions(stay) <= batch.ask.unsqueeze(1))).sum(1)
    return (before - 1).clamp_min(0)


def _positions(tensor: Tensor) -> Int[Tensor, "batch position"]:
    return torch.arange(tensor.shape[1], device=tensor.device).expand(*tensor.shape[:2])


def _numbers(batch: Batch) -> Int[Tensor, "batch unit"]:
    return _positions(batch.valid)


def _per_position(batch: Batch, name: str, tensor: Any) -> bool:
    decoder = name.startswith("decoder_")  # of as many positions only by chance
    return isinstance(tensor, Tensor) and not decoder and tensor.dim() >= 2 and tensor.shape[:2] == batch.shape


def _special(tokenizer: Any, ids: Tensor) -> Tensor:
    """Return the tokens that are never deleted; an unknown word is a word, unless its token has another duty."""
    duties = (getattr(tokenizer, f"{duty}_token_id", None) for duty in ("bos", "eos", "cls", "sep", "pad", "mask"))
    never = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id} | {duty for duty in duties if duty is not None}
    return torch.tensor(sorted(never), dtype=ids.dtype, device=ids.device)


def _nothing(tokenizer: Any) -> int:
    known = (getattr(tokenizer, f"{kind}_token_id", None) for kind in ("bos", "eos", "pad"))
    return next(int(number) for number in known if number is not None)  # a task's tokenizer can pad


def _check_text(question: Question) -> None:
    task, batch = question.task, question.batch
    texts = all(_per_position(batch, name, batch.inputs.get(name)) for name in ("input_ids", "attention_mask"))
    if not texts or getattr(task, "tokenizer", None) is None:
        raise DataError(
            f"removal 'deletion' deletes tokens from a text, and {type(task).__name__} has no tokenizer or gives the "
            f"model {', '.join(batch.inputs)}: use removal 'baseline', 'mean', 'zero' or 'noise'"
        )
    if "position_ids" in batch.inputs:
        raise DataError(
            "removal 'deletion' closes the gaps between positions, and this task numbers them itself (position_ids): "
            "leave them out, or use removal 'mask-token'"
        )


def _check_prediction(question: Question) -> None:
    """Refuse a prediction made per position, found out by shortening the example that can lose most."""
    losable = (question.batch.spread(torch.zeros_like(question.batch.valid)) == 0).sum(1)
    alone = question.batch.example(int(losable.argmax()))
    all_of_it, none_of_it = torch.ones(alone.valid.shape), torch.zeros(alone.valid.shape)
    long, short = (_read(question, alone, keep.to(alone.valid.device)) for keep in (all_of_it, none_of_it))
    for name, head in long.items():
        if head.raw.shape != short[name].raw.shape:
            raise DataError(
                f"removal 'deletion' moves positions, and the prediction '{name}' is made for each of them, so nothing "
                "could be compared: use removal 'mask-token' or 'baseline'"
            )
