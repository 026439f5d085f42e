"""Hide some words of a text and ask which they were: BERT's rule (Devlin et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ..errors import SettingError
from ..tasks.words import MASK, Vocabulary

MASKED, RANDOM = 0.8, 0.1  # of the chosen words; the others stay as they are


@dataclass(frozen=True)
class Masking:
    """Which number hides a word, from which numbers another is drawn, and what share of the words is chosen."""

    mask: int
    first_word: int
    words: int
    share: float = 0.15

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise SettingError(f"the share of words to mask must lie between 0 and 1, got {self.share}")
        if self.first_word >= self.words:
            raise SettingError("the vocabulary has only special words: there is none to put in the place of another")


@dataclass(frozen=True)
class Hidden:
    """Texts with some words hidden, and which were chosen."""

    input_ids: Int[Tensor, "batch position"]
    chosen: Bool[Tensor, "batch position"]


def masking_of(vocabulary: Vocabulary, share: float = 0.15) -> Masking:
    """Return the rule for a vocabulary, which must know the mask."""
    if vocabulary.mask_token_id is None:
        raise SettingError(
            f"masked language modelling hides words behind '{MASK}', which this vocabulary does not have: make it with "
            "Vocabulary(texts, special=(START, END, MASK)), or train with mlm = 0"
        )
    return Masking(vocabulary.mask_token_id, vocabulary.first_word, len(vocabulary), share)


def hide_words(
    ids: Int[Tensor, "batch position"], attended: Bool[Tensor, "batch position"], rule: Masking, draw: torch.Generator
) -> Hidden:
    """Choose words and hide 8 in 10 of them behind the mask, 1 in 10 behind another word.

    `draw` is of the CPU, so that a seed hides the same words on every device.
    """
    pick, fate = torch.rand(2, *ids.shape, generator=draw).to(ids.device)
    other = torch.randint(rule.first_word, rule.words, ids.shape, generator=draw).to(ids.device)
    chosen = attended & (pick < rule.share)
    hidden = torch.where(fate < MASKED, rule.mask, torch.where(fate < MASKED + RANDOM, other, ids))
    return Hidden(torch.where(chosen, hidden, ids), chosen)
