"""Train the small BERT sentiment classifier that ships with the package, from the phrases of the sentiment treebank."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from jaxtyping import Float, Int
from safetensors.torch import save
from tokenizers import Tokenizer, normalizers, pre_tokenizers, trainers
from tokenizers.models import WordPiece
from torch import Tensor, nn
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer, BertConfig, BertTokenizer

from ..storage import write_file
from ..tasks.sst import Sentence, binary_examples, binary_sentences, read_sst
from ..training.random import NOISE, START, generator
from .fine_tune import FineTuneConfig, FineTuned, Progress, fine_tune
from .trained import measure_accuracy

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]  # in the order of their ids, which BERT's tokenizer expects
MASK = SPECIAL.index("[MASK]")
LABELS = {0: "negative", 1: "positive"}
SPREAD = 0.05  # of the starting word embeddings; those of positions start at 0.02, so words weigh more than places
HELD_OUT = 10  # every tenth training sentence chooses the epoch, so that dev and test stay unseen
FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")

Example = tuple[str, int]


@dataclass(frozen=True)
class SentimentConfig:
    """The size of the model and how it is trained."""

    vocabulary: Annotated[int, "word pieces"] = 8000
    layers: Annotated[int, "of the encoder"] = 2
    width: Annotated[int, "of a hidden state"] = 128
    inner_width: Annotated[int, "of the feed-forward part of a layer"] = 512
    heads: Annotated[int, "of attention in a layer"] = 4
    max_length: Annotated[int, "most word pieces in a text"] = 128
    dropout: Annotated[float, "of hidden states"] = 0.3
    attention_dropout: Annotated[float, "of attention"] = 0.2
    word_dropout: Annotated[float, "share of word pieces replaced by [MASK], so that no single one decides"] = 0.3
    epochs: Annotated[int, "passes over the phrases"] = 3
    batch_size: Annotated[int, "phrases per step"] = 64
    learning_rate: Annotated[float, "its highest value"] = 1e-3
    warmup: Annotated[float, "share of the steps over which the learning rate rises"] = 0.06


def train_sentiment_model(
    data: Path,
    directory: Path,
    seed: int = 0,
    encoder: Path | None = None,
    config: SentimentConfig | None = None,
    progress: Progress | None = None,
) -> dict[str, float]:
    """Train tokenizer and model on the treebank in `data`, write them to `directory`, and measure what was written.

    `encoder` is the directory of a pretrained BERT whose word embeddings, brought down to our width, the model starts
    from; without one it starts from chance.
    """
    config, began = config or SentimentConfig(), time.perf_counter()
    sentences = read_sst(data, "train")
    tokenizer = train_tokenizer([sentence.text for sentence in sentences], config.vocabulary, config.max_length)
    model = build_model(config, len(tokenizer), seed)
    if encoder is not None:
        start_embeddings(model, tokenizer, encoder)
    found = train_model(model, tokenizer, sentences, config, seed, progress)
    save_model(model, tokenizer, directory)
    seconds = time.perf_counter() - began
    chosen = {"held_out_accuracy": found.scores[found.epoch], "epoch": found.epoch + 1, "epochs": config.epochs}
    return {**measure(data, directory), **chosen, "seconds": seconds}


def train_model(
    model: nn.Module,
    tokenizer: Any,
    sentences: Sequence[Sentence],
    config: SentimentConfig,
    seed: int,
    progress: Progress | None = None,
) -> FineTuned:
    """Train the classifier on phrases, and keep the epoch that does best on the sentences held out."""
    fitted, held = split(sentences)
    batches = PhraseBatches(tokenizer, training_examples(fitted), config.batch_size, config.word_dropout, seed)
    how = FineTuneConfig(config.epochs, 1, config.learning_rate, config.warmup, seed=seed)  # a row is a whole batch
    chooses = binary_sentences(held)

    def evaluate() -> float:
        return measure_accuracy(model, tokenizer, chooses)

    return fine_tune(model, batches, len(batches), how, evaluate=evaluate, progress=progress)


def split(sentences: Sequence[Sentence]) -> tuple[list[Sentence], list[Sentence]]:
    """Return the sentences to train on and those that choose the epoch."""
    held = list(sentences[::HELD_OUT])
    return [sentence for place, sentence in enumerate(sentences) if place % HELD_OUT], held


def training_examples(sentences: Sequence[Sentence]) -> list[Example]:
    """Return every phrase that is not neutral once, and whole sentences once more: they are what the model is for."""
    phrases = dict(example for sentence in sentences for example in binary_examples(sentence.phrases))
    return [*phrases.items(), *binary_sentences(sentences)]


def train_tokenizer(texts: Sequence[str], size: int, max_length: int) -> Any:
    """Learn lower-cased word pieces from texts; the same texts give the same pieces."""
    learner = Tokenizer(WordPiece(unk_token="[UNK]"))
    learner.normalizer = normalizers.BertNormalizer(lowercase=True)
    learner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    # The trainer numbers inner characters in the order of a hash table and breaks ties between pairs by number,
    # so two runs would differ; named here as special pieces, the characters have their numbers beforehand.
    letters = sorted(set("".join(map(learner.normalizer.normalize_str, texts)).replace(" ", "")))
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=[*SPECIAL, *(f"##{letter}" for letter in letters)],
        show_progress=False,
    )
    learner.train_from_iterator(texts, trainer)
    return BertTokenizer(vocab=learner.get_vocab(), model_max_length=max_length)


def build_model(config: SentimentConfig, vocabulary: int, seed: int) -> Any:
    """Return an untrained classifier; all its weights depend on the seed."""
    sizes = BertConfig(
        vocab_size=vocabulary,
        hidden_size=config.width,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        intermediate_size=config.inner_width,
        max_position_embeddings=config.max_length,
        hidden_dropout_prob=config.dropout,
        attention_probs_dropout_prob=config.attention_dropout,
        id2label=LABELS,
        label2id={name: label for label, name in LABELS.items()},
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return AutoModelForSequenceClassification.from_config(sizes)  # type: ignore[no-untyped-call]


def start_embeddings(model: Any, tokenizer: Any, encoder: Path) -> None:
    """Set the word embeddings to the main components of a pretrained model's, so that like words start alike."""
    weights = model.get_input_embeddings().weight
    ours = average_embeddings(tokenizer, encoder)
    centred = ours - ours.mean(0)
    directions = torch.linalg.svd(centred, full_matrices=False).Vh[: weights.shape[1]]
    projected = centred @ directions.T
    with torch.no_grad():
        weights.copy_(SPREAD * projected / projected.std())


def average_embeddings(tokenizer: Any, encoder: Path) -> Float[Tensor, "word hidden"]:
    """Return for each of our word pieces the mean embedding of the pieces a pretrained model makes of it."""
    theirs = AutoTokenizer.from_pretrained(encoder)
    table = AutoModel.from_pretrained(encoder).get_input_embeddings().weight.detach().float()
    known = theirs.get_vocab()
    words = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    pieces = [
        [known[word]] if word in known else theirs(word.removeprefix("##"), add_special_tokens=False)["input_ids"]
        for word in words
    ]
    return torch.stack([table[ids].mean(0) for ids in pieces])


class PhraseBatches:
    """Batches of phrases of like length, so that little of a batch is padding; calling it encodes some of them.

    They stay together through the epochs: only the order of the batches is drawn anew.
    """

    def __init__(
        self, tokenizer: Any, examples: Sequence[Example], batch_size: int, word_dropout: float, seed: int
    ) -> None:
        self.tokenizer, self.word_dropout, self.noise = tokenizer, word_dropout, generator(seed, NOISE)
        self.ids = tokenizer([text for text, _ in examples], truncation=True)["input_ids"]
        self.labels = torch.tensor([label for _, label in examples])
        shuffled = torch.randperm(len(examples), generator=generator(seed, START)).tolist()
        order = sorted(shuffled, key=lambda row: len(self.ids[row]))  # stable: chance decides among equal lengths
        self.rows = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]

    def __len__(self) -> int:
        return len(self.rows)

    def __call__(self, batches: list[int]) -> dict[str, Tensor]:
        rows = [row for batch in batches for row in self.rows[batch]]
        padded = self.tokenizer.pad({"input_ids": [self.ids[row] for row in rows]}, return_tensors="pt")
        hidden = self._hide_words(padded["input_ids"])
        return {"input_ids": hidden, "attention_mask": padded["attention_mask"], "labels": self.labels[rows]}

    def _hide_words(self, ids: Int[Tensor, "batch unit"]) -> Int[Tensor, "batch unit"]:
        hidden = torch.rand(ids.shape, generator=self.noise) < self.word_dropout
        return ids.masked_fill(hidden & (ids >= len(SPECIAL)), MASK)


def save_model(model: Any, tokenizer: Any, directory: Path) -> None:
    """Write the files `from_pretrained` reads: float16 on disk for its size, float32 once loaded."""
    weights = {name: value.detach().half().contiguous() for name, value in model.state_dict().items()}
    write_file(directory / "model.safetensors", save(weights, metadata={"format": "pt"}))
    described = model.config
    described.architectures, described.dtype = [type(model).__name__], torch.float32
    described.save_pretrained(directory)
    tokenizer.save_pretrained(directory)


def measure(data: Path, directory: Path) -> dict[str, float]:
    """Load what was written and return its accuracy on binary sentences and its size."""
    model = AutoModelForSequenceClassification.from_pretrained(directory).eval()
    tokenizer = AutoTokenizer.from_pretrained(directory)
    return {
        "dev_accuracy": measure_accuracy(model, tokenizer, binary_sentences(read_sst(data, "dev"))),
        "test_accuracy": measure_accuracy(model, tokenizer, binary_sentences(read_sst(data, "test"))),
        "megabytes": sum((directory / name).stat().st_size for name in FILES) / 1e6,
    }
