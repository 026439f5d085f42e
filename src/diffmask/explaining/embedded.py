"""The sentiment classifier that ships with the package, and its probes: something to explain without a download."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from ..errors import DiffMaskError, SettingError, StorageError
from ..models.adapter import Adapter
from ..models.adapting import adapt
from ..models.pretrained import quiet
from ..registry import unknown
from ..tasks.text import TextClassification
from ..training.fit import Fit
from ..training.saved import load_fit

Kind = Literal["input", "hidden"]
KINDS: tuple[Kind, ...] = get_args(Kind)
PLACE = Path(__file__).parents[1] / "embedded" / "sentiment"


def load_embedded(kind: Kind = "input", *, strict: bool = False) -> Fit:
    """Load the embedded model with the probe that masks its input, or the one that masks its hidden states.

    >>> import diffmask
    >>> explanation = diffmask.explain(load_embedded(), ["A fast, funny, highly enjoyable movie."])[0]
    >>> explanation.info["labels"][explanation.verification.original["label"]]
    'positive'

    A text of more than 128 word pieces is cut, or refused if `strict`.
    """
    if kind not in KINDS:
        raise SettingError(unknown("kind of probe", str(kind), KINDS))
    with torch.random.fork_rng(devices=[]):  # modules draw weights before theirs are loaded; the user's dice stay put
        model, tokenizer = embedded_model()
        task = embedded_task(model, tokenizer, [], [], strict=strict)
        return load_fit(_present(PLACE / f"probe-{kind}.safetensors"), model, task)


def embedded_task(
    model: Adapter, tokenizer: Any, train: Sequence[str], validation: Sequence[str], *, strict: bool = False
) -> TextClassification:
    """Return the task the probes are fitted and used with: gates also read [CLS], where the prediction is made."""
    labels = [name for _, name in sorted(model.model.config.id2label.items())]  # type: ignore[union-attr, operator]
    return TextClassification(tokenizer, train, validation, labels=labels, ask="first", strict=strict)


def embedded_model(place: Path = PLACE) -> tuple[Adapter, Any]:
    """Read model and tokenizer from files, the package's own if not told otherwise, and nothing from the network."""
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        _present(place / name)  # transformers would look for a missing file on the network, and complain about that
    try:
        from transformers import AutoModelForSequenceClassification, AutoTokenizer
    except ImportError as error:
        raise DiffMaskError("the embedded model needs transformers: pip install 'diffmask[text]'") from error
    with quiet():
        model = AutoModelForSequenceClassification.from_pretrained(place, local_files_only=True, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(place, local_files_only=True)
    return adapt(model.eval(), tokenizer), tokenizer


def _present(path: Path) -> Path:
    if not path.is_file():
        raise StorageError(f"{path} is missing, which ships with diffmask: install it again")
    return path
