"""Tiny random text models, an offline tokenizer that cuts some words in two, and questions about both."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import nn
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from diffmask.attribution.method import Question
from diffmask.models.adapting import adapt
from diffmask.tasks.text import NextToken, TextClassification, at_last_real
from tiny_text import pad_left

PIECES = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "a", "fast", "fun", "##ny", "movie", "enjoy", "##able", "."]
TEXTS = ["a funny movie .", "enjoyable", "a fast enjoyable movie . funny"]
HIDDEN = 16
SIZES = {
    "vocab_size": len(PIECES),
    "hidden_size": HIDDEN,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 16,
    "initializer_range": 0.4,  # wide enough for a random model to have opinions
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


class LSTMClassifier(nn.Module):
    """Reads from left to right and answers at the last real position."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(PIECES), HIDDEN)
        self.lstm = nn.LSTM(HIDDEN, HIDDEN, batch_first=True)
        self.answer = nn.Linear(HIDDEN, 3)

    def forward(self, input_ids, attention_mask):
        states, _ = self.lstm(self.embedding(input_ids))
        return SimpleNamespace(logits=self.answer(at_last_real(states, attention_mask)))


BUILD: dict[str, Callable[[], nn.Module]] = {
    "bert": lambda: BertForSequenceClassification(BertConfig(**SIZES, num_labels=3)),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, num_key_value_heads=2)),
    "lstm": LSTMClassifier,
}


def make_tokenizer():
    inner = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair=None, special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    special = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    names = ["input_ids", "attention_mask"]
    settings = {"model_max_length": 16, "model_input_names": names}
    return PreTrainedTokenizerFast(tokenizer_object=inner, **settings, **special)


def ask_text(texts=TEXTS, depth=0, kind="bert", model=None, padding_side="right", **settings):
    """Ask about texts at a depth of a tiny random model, the same for the same kind."""
    torch.manual_seed(0)
    adapter = model or adapt(BUILD[kind]().eval())
    make_task = NextToken if kind == "llama" else TextClassification
    task = pad_left(make_task(make_tokenizer(), TEXTS, TEXTS, **settings), padding_side == "left")
    baseline = torch.randn(HIDDEN, generator=torch.Generator().manual_seed(1))
    return Question(adapter, task, task.collate(texts), depth, baseline)


@pytest.fixture(name="ask_text")
def _ask_text():
    return ask_text


class Linear(nn.Module):
    """One value: the dot product of every state with the weights of its place."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(9, 4)
        self.weight = nn.Parameter(torch.randn(5, 4))

    def forward(self, ids):
        return (self.embedding(ids) * self.weight).sum((1, 2))


@pytest.fixture
def linear():
    """A question about a linear model, for which every method has a closed form."""
    from diffmask.tasks.tensors import TensorTask

    torch.manual_seed(0)
    ids = torch.randint(9, (6, 5))
    task = TensorTask(
        {"ids": ids}, torch.arange(5).expand(6, 5) < torch.tensor([[5], [3], [1], [4], [2], [5]]), "value"
    )
    return Question(adapt(Linear(), sites=["embedding"]), task, task.collate(range(6)), 0, torch.randn(4))


def add_up_tokens(task, texts, tokens):
    """Add up what tokens got into what their words get, by a slow loop: a piece with ## goes on with its word."""
    found = torch.zeros(len(texts), max(len(names) for names in task.units(texts)))
    for row, text in enumerate(texts):
        word = -1
        for place, piece in enumerate(task.tokenizer.tokenize(text, add_special_tokens=True)):
            word += not piece.startswith("##")
            found[row, word] += tokens[row, place]
    return found


@pytest.fixture(name="add_up_tokens")
def _add_up_tokens():
    return add_up_tokens
