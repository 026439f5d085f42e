"""Train a small BERT from chance on texts with a planted shortcut, and check that it really uses it."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers.models import WordLevel
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification, BertConfig, PreTrainedTokenizerFast

from ..models.adapting import adapt
from ..tasks.planted import Planted, Shortcut, draw_texts, edits, insertion, vocabulary
from .fine_tune import FineTuneConfig, fine_tune

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LONGEST = 24
USES = 0.95  # of each kind of edit, this share must have its effect, or the model is refused


@dataclass(frozen=True)
class PlantedSize:
    """How much the model reads, and how large it is."""

    texts: int = 6000
    epochs: int = 12
    width: int = 32
    layers: int = 2
    batch_size: int = 64
    learning_rate: float = 3e-3


@dataclass(frozen=True)
class PlantedModel:
    """A trained model with its words, and what became of the prediction when texts were edited."""

    model: Any
    tokenizer: Any
    checks: dict[str, float]  # the share of texts on which an edit had the effect it must have

    @property
    def uses_shortcut(self) -> bool:
        return min(self.checks.values()) >= USES


def train_planted(shortcut: Shortcut, seed: int, size: PlantedSize) -> PlantedModel:
    """Train on a seed's own texts and check on others."""
    tokenizer, texts = make_tokenizer(), draw_texts(shortcut, size.texts, seed, blanks=True)
    model = make_model(len(tokenizer), size, seed)

    def encode(rows: list[int]) -> dict[str, Tensor]:
        labels = torch.tensor([texts[row].label for row in rows])
        return {**encode_words(tokenizer, [texts[row].words for row in rows]), "labels": labels}

    config = FineTuneConfig(size.epochs, size.batch_size, size.learning_rate, seed=seed)
    fine_tune(model, encode, len(texts), config)
    held_out = draw_texts(shortcut, 400, seed + 1_000_000, blanks=False)
    return PlantedModel(model, tokenizer, check_shortcut(model, tokenizer, shortcut, held_out, seed))


def make_tokenizer() -> Any:
    """Make a tokenizer of whole words, in memory."""
    words = {word: number for number, word in enumerate([*SPECIAL, *vocabulary()])}
    inner = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    ends = [(token, words[token]) for token in ("[CLS]", "[SEP]")]
    inner.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=inner,
        model_max_length=LONGEST,
        model_input_names=["input_ids", "attention_mask"],
        **dict(zip(names, SPECIAL, strict=True)),
    )


def make_model(vocabulary_size: int, size: PlantedSize, seed: int) -> Any:
    """Return an untrained classifier; all its weights depend on the seed."""
    config = BertConfig(
        vocab_size=vocabulary_size,
        hidden_size=size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=2,
        intermediate_size=2 * size.width,
        max_position_embeddings=LONGEST,
        initializer_range=0.1,
        pad_token_id=0,
        id2label={0: "absent", 1: "present"},
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return AutoModelForSequenceClassification.from_config(config)  # type: ignore[no-untyped-call]


def encode_words(tokenizer: Any, texts: Sequence[Sequence[str]]) -> dict[str, Tensor]:
    """Make one padded batch of texts."""
    return dict(tokenizer([" ".join(words) for words in texts], padding=True, return_tensors="pt"))


@torch.no_grad()
def answers(model: nn.Module, tokenizer: Any, texts: Sequence[Sequence[str]]) -> Tensor:
    """Return the label the model gives each text."""
    with adapt(model).frozen():
        return model(**encode_words(tokenizer, texts)).logits.argmax(-1)


def check_shortcut(
    model: nn.Module, tokenizer: Any, shortcut: Shortcut, texts: Sequence[Planted], seed: int
) -> dict[str, float]:
    """Return, for each kind of edit, the share of texts on which the prediction changed as it must, or stayed."""
    dice, made = random.Random(f"edits {seed}"), []
    for text in texts:
        if text.label:
            made += edits(text, shortcut, dice)
        elif not {shortcut.first, shortcut.second} & set(text.words):
            made.append(insertion(text, shortcut, dice))
    effects = defaultdict(list)
    said = answers(model, tokenizer, [edit.words for edit in made]).tolist()
    for edit, label in zip(made, said, strict=True):
        effects[edit.name].append(label == shortcut.label(edit.words))
    right = answers(model, tokenizer, [text.words for text in texts])
    labels = torch.tensor([text.label for text in texts])
    found = {name: sum(effect) / len(effect) for name, effect in effects.items()}
    return {"unchanged": float((right == labels).float().mean()), **found}
