"""What an attentive classifier is made of, and how it is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from ..errors import SettingError
from ..settings import check_choices
from .projections import check_sparsity


@dataclass(frozen=True)
class AttentiveConfig:
    """What a classifier is made of. The defaults are Jain and Wallace's (2019), but for the query's start."""

    words: Annotated[int, "size of the vocabulary, special words included"]
    labels: Annotated[int, "logits: 1 for yes or no, else one per class"] = 1
    width: Annotated[int, "of the embeddings"] = 300
    encoder: Annotated[str, "bilstm, transformer or projection"] = "bilstm"
    hidden: Annotated[int, "width of the encoder, of a BiLSTM per direction"] = 128
    layers: Annotated[int, "of the encoder"] = 1
    alignment: Annotated[str, "additive or dot"] = "additive"
    query: Annotated[
        Literal["normal", "default"], "how the query of dot attention is drawn: N(0, 1), or as PyTorch"
    ] = "normal"
    projection: Annotated[str, "softmax, sparsemax, sparsegen or entmax15"] = "softmax"
    sparsity: Annotated[float, "λ of sparsegen, below 1"] = 0.0
    join: Annotated[Literal["none", "concat", "residual"], "whether hidden states take the embedding in"] = "none"
    freeze: Annotated[bool, "keep the embeddings as they are"] = False
    dropout: Annotated[float, "of the embeddings, and inside a Transformer"] = 0.0
    unattended: Annotated[tuple[int, ...], "words that are read but never attended to: start and end"] = (2, 3)

    def __post_init__(self) -> None:
        check_choices(self, "classifier")
        for name in ("words", "labels", "width", "hidden", "layers"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 0 <= self.dropout < 1:
            raise SettingError(f"dropout must lie in [0, 1), got {self.dropout}")
        check_sparsity(self.sparsity)
        if self.sparsity and self.projection != "sparsegen":
            raise SettingError(f"sparsity = {self.sparsity} is for projection = sparsegen, got {self.projection}")


@dataclass(frozen=True)
class AttentiveTraining:
    """How a classifier is trained. `tying` is Tutek and Šnajder's δ, `mlm` their η; both may be on."""

    epochs: Annotated[int, "passes over the documents, at most"] = 8
    batch_size: Annotated[int, "documents per step"] = 32
    learning_rate: Annotated[float, "of everything but the attention"] = 1e-3
    attention_rate: Annotated[float, "learning rate of the attention, in multiples of learning_rate"] = 1.0
    weight_decay: Annotated[float, "of everything but the attention"] = 1e-5
    clip: Annotated[float, "largest norm of a gradient"] = 5.0
    balance: Annotated[bool, "count yes n_no / n_yes times"] = True
    tying: Annotated[float, "weight of the distance between hidden states and embeddings"] = 0.0
    mlm: Annotated[float, "weight of guessing hidden words; needs frozen embeddings"] = 0.0
    mask_share: Annotated[float, "share of the words chosen for guessing"] = 0.15
    select: Annotated[Literal["auc", "f1", "accuracy"], "what the kept epoch is best in, on dev"] = "auc"
    earliest: Annotated[int, "first epoch that may be kept, counted from 0"] = 1
    patience: Annotated[int, "epochs without a better one after which training stops; 0: never"] = 0
    bf16: Annotated[bool, "compute in bfloat16; the weights stay in float32"] = False
    seed: Annotated[int, "order, dropout and hidden words depend on it alone"] = 0

    def __post_init__(self) -> None:
        check_choices(self, "training")
        for name in ("epochs", "batch_size", "learning_rate", "attention_rate", "clip"):
            if not getattr(self, name) > 0:
                raise SettingError(f"{name} must be positive, got {getattr(self, name)}")
        for name in ("weight_decay", "tying", "mlm", "earliest", "patience"):
            if getattr(self, name) < 0:
                raise SettingError(f"{name} must be 0 or more, got {getattr(self, name)}")
