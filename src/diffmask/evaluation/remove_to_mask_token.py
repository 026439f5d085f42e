"""A removed unit's tokens become the token that means "something stood here"."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..attribution.method import Question
from ..errors import DataError
from ..types import Batch, Prediction, split_prediction
from .removal import Removal, check_rows, check_whole, parts

KINDS = ("mask", "unk", "pad")  # the tokens that say least, the best known first


@dataclass(frozen=True)
class ToMaskToken(Removal):
    """The tokenizer's mask token at the input, else its unknown, else its padding token; positions stay."""

    name = "mask-token"
    rows: Annotated[int, "rows in one pass, one per mask and example; never fewer than the batch has"] = 256

    def __post_init__(self) -> None:
        check_rows(self.name, self.rows)

    def describe(self, question: Question) -> str:
        return f"token {question.task.tokenizer.convert_ids_to_tokens(_token(question))}"  # type: ignore[attr-defined]

    @torch.no_grad()
    def __call__(self, question: Question, keeps: Float[Tensor, "copy batch unit"]) -> list[Prediction]:
        check_whole(self.name, keeps)
        token = _token(question)
        with question.model.frozen():
            return [found for part in parts(keeps, self.rows) for found in _run(question, part, token)]


def _run(question: Question, keeps: Float[Tensor, "copy batch unit"], token: int) -> list[Prediction]:
    copies = _masked(question.batch.repeat(len(keeps)), keeps.flatten(0, 1), token)
    return split_prediction(question.task.read(question.model(copies), copies), len(keeps))


def _masked(batch: Batch, keep: Float[Tensor, "batch unit"], token: int) -> Batch:
    ids = torch.where(batch.spread(keep) == 0, token, batch.inputs["input_ids"])
    return replace(batch, inputs={**batch.inputs, "input_ids": ids})


def _token(question: Question) -> int:
    """Find the token to put in, or say why there is none."""
    task, ids = question.task, question.batch.inputs.get("input_ids")
    tokenizer: Any = getattr(task, "tokenizer", None)
    if tokenizer is None or not isinstance(ids, Tensor) or ids.shape != question.batch.shape:
        raise DataError(
            f"removal 'mask-token' puts a token into input_ids, and {type(task).__name__} has no tokenizer or gives "
            f"the model {', '.join(question.batch.inputs)}: use removal 'baseline', 'mean', 'zero' or 'noise'"
        )
    known = (getattr(tokenizer, f"{kind}_token_id", None) for kind in KINDS)
    token = next((int(number) for number in known if number is not None), None)
    if token is None:
        raise DataError(
            f"{type(tokenizer).__name__} has no mask, unknown or padding token for removal 'mask-token' to put in: set "
            "one, or use removal 'deletion'"
        )
    return token
