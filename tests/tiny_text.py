"""Text models and tokenizers small enough to know the answer: random weights, no downloads."""

from __future__ import annotations

from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import nn
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

PIECES = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "a", "fast", "fun", "##ny", "movie", "enjoy", "##able", ".", "what", "?"]
TEXTS = ["a funny movie .", "enjoyable", "a fast enjoyable movie . funny"]
SIZES = {
    "vocab_size": len(PIECES),
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 24,
    "initializer_range": 0.4,  # wide enough for a random model to have opinions
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GPT2 = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 24, "vocab_size": len(PIECES), "initializer_range": 0.4}
GPT2 |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
BART = {"layers": 2, "attention_heads": 2, "ffn_dim": 24}


def make_tokenizer(side: str = "right", longest: int = 24, causal: bool = False, **names: Any) -> Any:
    """Cut "funny" and "enjoyable" in two; begin with [CLS], and end with [SEP] unless it is for a causal model."""
    inner = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(lowercase=True)
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    single, pair = ("[CLS] $A", None) if causal else ("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1")
    inner.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    special = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]", **names}
    known = ["input_ids", "attention_mask"] if causal else ["input_ids", "token_type_ids", "attention_mask"]
    settings = {"model_max_length": longest, "padding_side": side, "model_input_names": known}
    return PreTrainedTokenizerFast(tokenizer_object=inner, **{**settings, **special})


def make_model(kind: str, seed: int = 0, **changes: Any) -> nn.Module:
    """Make a tiny BERT with three labels, Llama or GPT-2; random, and the same for the same seed."""
    torch.manual_seed(seed)
    if kind == "bert":
        return BertForSequenceClassification(BertConfig(**{**SIZES, "num_labels": 3, **changes})).eval()
    if kind == "llama":
        return LlamaForCausalLM(LlamaConfig(**{**SIZES, "num_key_value_heads": 2, **changes})).eval()
    return GPT2LMHeadModel(GPT2Config(**{**GPT2, **changes})).eval()


def make_causal_classifier(kind: str = "gpt2", **changes: Any) -> Any:
    """Make a tiny GPT-2 or Llama with three labels, which answers at the last token that is no padding."""
    torch.manual_seed(0)
    if kind == "llama":
        sizes = {**SIZES, "num_key_value_heads": 2, "num_labels": 3}
        return LlamaForSequenceClassification(LlamaConfig(**{**sizes, **changes})).eval()
    return GPT2ForSequenceClassification(GPT2Config(**{**GPT2, "num_labels": 3, **changes})).eval()


def make_writer(kind: str, seed: int = 0) -> nn.Module:
    """Make a tiny T5 or BART, which reads a text in one part and writes its answer in another."""
    torch.manual_seed(seed)
    names = {"vocab_size": len(PIECES), "d_model": 16, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    if kind == "t5":
        sizes = {"d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2, "initializer_factor": 20.0}
        return T5ForConditionalGeneration(T5Config(**names, **sizes, decoder_start_token_id=0)).eval()
    sizes = {f"{part}_{size}": n for part in ("encoder", "decoder") for size, n in BART.items()}
    more = {"max_position_embeddings": 24, "decoder_start_token_id": 2, "init_std": 1.0}
    bart = BartForConditionalGeneration(BartConfig(**names, **sizes, **more)).eval()
    bart.generation_config.forced_bos_token_id = 1
    return bart


def pad_left(task: Any, wanted: bool = True) -> Any:
    """Let a task put its padding on the left, as one of the user's own may."""
    if wanted:
        plain = task.collate
        task.collate = lambda examples: padded_left(plain(examples))
    return task


def padded_left(batch: Any) -> Any:
    """Move the padding of a batch to its left."""
    real = batch.inputs["attention_mask"]
    order = real.argsort(dim=1, stable=True)
    inputs = {name: tensor.gather(1, order) for name, tensor in batch.inputs.items()}
    places = (
        (batch.valid.gather(1, order), None) if batch.place is None else (batch.valid, batch.place.gather(1, order))
    )
    ask = None if batch.ask is None else batch.ask + (1 - real).sum(1)
    return type(batch)(inputs, *places, ask)


class Counting(nn.Module):
    """A model that counts how often it runs."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.passes = model, 0

    def forward(self, **inputs: Any) -> Any:
        self.passes += 1
        return self.model(**inputs)
