"""Train a classifier to answer like another while it attends to something else (Wiegreffe and Pinter 2019).

    loss = TVD(ŷ_a, ŷ_b) − λ JSD(α_a, α_b), both averaged over documents

Frozen, it is the base classifier with a new alignment, which alone moves; unfrozen, a new classifier. Published code
maximised KL(α_a ‖ α_b), infinite for sparse α_b, and halved the distance: JSD and the true one stand here, as in the
texts of Meister et al. (2021) and Tutek and Šnajder (2020).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import DataError, ModelError, SettingError
from ..tasks.documents import Document, DocumentTask, check_words, padded
from ..training.random import batch_indices
from .attacks import jensen_shannon
from .classifier import Attended, AttentiveClassifier, make_classifier
from .evidence import by_length, direction
from .quality import measure_quality


@dataclass(frozen=True)
class AdversaryConfig:
    """How an adversary is trained."""

    strength: Annotated[float, "λ, the reward for attending elsewhere"] = 1.0
    frozen: Annotated[bool, "move the alignment alone, drawn anew"] = False
    epochs: Annotated[int, "passes over the documents, at most"] = 20
    patience: Annotated[int, "epochs without a lower loss after which training stops; 0: never"] = 3
    batch_size: Annotated[int, "documents per step"] = 32
    learning_rate: Annotated[float, "of Adam with amsgrad"] = 1e-3
    weight_decay: Annotated[float, "of everything but the alignment"] = 1e-5
    clip: Annotated[float, "largest norm of a gradient"] = 5.0
    seed: Annotated[int, "of the first weights and of the order"] = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} of an adversary must be at least 1, got {getattr(self, name)}")
        if self.strength < 0:
            raise SettingError(f"strength of an adversary rewards attending elsewhere: at least 0, got {self.strength}")


@dataclass(frozen=True)
class Apart:
    """How far an adversary is from its base on documents, on average, and how well both do."""

    divergence: float  # JSD of the attention, in nats
    distance: float  # TVD of the answers
    accuracy: float
    base_accuracy: float
    f1: float
    base_f1: float

    @property
    def change(self) -> float:
        return self.accuracy - self.base_accuracy


def train_adversary(
    base: AttentiveClassifier,
    task: DocumentTask,
    documents: Sequence[Document],
    config: AdversaryConfig | None = None,
    vectors: Float[Tensor, "word width"] | None = None,
) -> AttentiveClassifier:
    """Return an adversary of a classifier, in evaluation mode on its device; the base stays as it is.

    `vectors` are the embeddings an unfrozen one starts from. The weights of the epoch with the lowest loss are kept.
    """
    config = config or AdversaryConfig()
    if not documents:
        raise DataError("an adversary is trained on documents, got none")
    check_words(documents, "the adversary's")
    base.eval()
    model = _start(base, config, vectors)
    rows = [task.numbers(document.text) for document in documents]
    batches = batch_indices(len(rows), config.batch_size, config.seed, lengths=[len(row) for row in rows])
    optimizer = torch.optim.Adam(_groups(model, config), lr=config.learning_rate, amsgrad=True)
    steps = max(1, len(rows) // config.batch_size)
    best, kept, waited = math.inf, model.state_dict(), 0
    cuda = [model.decoder.weight.device] if model.decoder.weight.is_cuda else []
    with torch.random.fork_rng(devices=cuda):
        torch.manual_seed(config.seed)  # of dropout
        for _ in range(config.epochs):
            texts = ([rows[row] for row in next(batches)] for _ in range(steps))
            mean = _train_epoch(model, base, optimizer, texts, config) / steps
            waited = 0 if mean < best else waited + 1
            if mean < best:
                best, kept = mean, copy.deepcopy(model.state_dict())
            if config.patience and waited >= config.patience:
                break
    model.load_state_dict(kept)
    model.eval().requires_grad_(True)
    model.embedding.weight.requires_grad_(not model.config.freeze)
    return model


@torch.no_grad()
def measure_apart(
    adversary: AttentiveClassifier,
    base: AttentiveClassifier,
    task: DocumentTask,
    documents: Sequence[Document],
    batch_size: int = 128,
) -> Apart:
    """Compare an adversary with its base on documents."""
    order, found = by_length(documents), list[tuple[Tensor, ...]]()
    adversary.eval()
    base.eval()
    for start in range(0, len(order), batch_size):
        batch = task.collate([documents[row].text for row in order[start : start + batch_size]])
        first, second = (model(**batch.to(base.decoder.weight.device).inputs) for model in (adversary, base))
        parts = (*_terms(adversary, first, second), _margin(adversary, first), _margin(base, second))
        found.append(tuple(part.float().cpu() for part in parts))
    distance, divergence, mine, theirs = (torch.cat(parts) for parts in zip(*found, strict=True))
    labels = torch.tensor([documents[row].label for row in order])
    ours, based = (measure_quality(margin.unsqueeze(1), labels) for margin in (mine, theirs))
    apart = float(divergence.mean()), float(distance.mean())
    return Apart(*apart, ours.accuracy, based.accuracy, ours.f1, based.f1)


def _start(base: AttentiveClassifier, config: AdversaryConfig, vectors: Tensor | None) -> AttentiveClassifier:
    device = base.decoder.weight.device
    if not config.frozen:
        return make_classifier(base.config, config.seed, vectors).to(device)
    model = copy.deepcopy(base).requires_grad_(False)
    # Drawn anew: near the base's own, the distance grows in proportion and the divergence with its square, so that an
    # adversary that starts there is pulled back.
    model.alignment.load_state_dict(make_classifier(base.config, config.seed).alignment.state_dict())
    model.alignment.requires_grad_(True)
    return model


def _groups(model: AttentiveClassifier, config: AdversaryConfig) -> list[dict[str, object]]:
    alignment = set(model.alignment.parameters())
    others = [weight for weight in model.parameters() if weight.requires_grad and weight not in alignment]
    groups: list[dict[str, object]] = [{"params": list(alignment), "weight_decay": 0.0}]
    return groups + ([{"params": others, "weight_decay": config.weight_decay}] if others else [])


def _train_epoch(
    model: AttentiveClassifier,
    base: AttentiveClassifier,
    optimizer: torch.optim.Optimizer,
    texts: Iterable[Sequence[Sequence[int]]],
    config: AdversaryConfig,
) -> float:
    """Train on every batch of texts and return the sum of the losses."""
    model.train()
    # Added up on the device: reading every loss would make a GPU wait at every step.
    steps = (_step(model, base, optimizer, rows, config) for rows in texts)
    total = float(sum(steps, torch.zeros((), device=model.decoder.weight.device)))
    if not math.isfinite(total):
        raise ModelError(f"the adversary's loss is {total}: lower learning_rate = {config.learning_rate}")
    return total


def _step(
    model: AttentiveClassifier,
    base: AttentiveClassifier,
    optimizer: torch.optim.Optimizer,
    rows: Sequence[Sequence[int]],
    config: AdversaryConfig,
) -> Tensor:
    inputs = {name: value.to(model.decoder.weight.device) for name, value in padded(rows).items()}
    with torch.no_grad():
        wanted = base(**inputs)
    distance, divergence = _terms(model, model(**inputs), wanted)
    loss = (distance - config.strength * divergence).mean()
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    nn.utils.clip_grad_norm_([weight for weight in model.parameters() if weight.requires_grad], config.clip)
    optimizer.step()
    return loss.detach()


def _terms(model: AttentiveClassifier, output: Attended, wanted: Attended) -> tuple[Tensor, Tensor]:
    """Return the distance of the answers and the divergence of the attention, per document."""
    first, second = (_margin(model, found).sigmoid() for found in (output, wanted))
    return (first - second).abs(), jensen_shannon(output.attention.float(), wanted.attention.float())


def _margin(model: AttentiveClassifier, output: Attended) -> Tensor:
    """Return how far class 1 is ahead of class 0."""
    direction(model)  # refuses more than two classes
    return output.logits[:, 0] if output.logits.shape[1] == 1 else output.logits[:, 1] - output.logits[:, 0]
