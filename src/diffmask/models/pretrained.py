"""Load a model of transformers with its tokenizer or image processor: from safetensors alone, and no code of others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from ..errors import DiffMaskError, ModelError
from .hub import Place

CAUSAL = "AutoModelForCausalLM"
AUTO = {
    "classification": "AutoModelForSequenceClassification",
    "multi-label": "AutoModelForSequenceClassification",
    "regression": "AutoModelForSequenceClassification",
    "token": "AutoModelForTokenClassification",
    "span": "AutoModelForQuestionAnswering",
    "next-token": CAUSAL,
    "continuation": CAUSAL,
    "image": "AutoModelForImageClassification",
}
HEADS = {  # how the classes of transformers are called that do a task
    "ForSequenceClassification": "classification",
    "ForTokenClassification": "token",
    "ForQuestionAnswering": "span",
    "LMHeadModel": "next-token",
    "ForCausalLM": "next-token",
    "ForConditionalGeneration": "next-token",
    "ForImageClassification": "image",
}
VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model", "tokenizer_config.json")
PROCESSORS = ("preprocessor_config.json", "processor_config.json")


def load_model(place: Place, kind: str, dtype: torch.dtype | str | None = None) -> nn.Module:
    """Load a model that does tasks of this kind, refusing one whose answer would be random."""
    transformers = import_transformers()
    if not any(place.path.glob("*.safetensors")):
        raise ModelError(
            f"{place.name} has no weights in safetensors: diffmask opens no pickles; save the model anew, with "
            "model.save_pretrained(directory)"
        )
    _check_trained(place, kind)
    auto = getattr(transformers, _auto_class(place, kind))
    with quiet(), torch.random.fork_rng(devices=[]):  # modules draw weights before theirs are loaded
        try:
            model, report = auto.from_pretrained(
                place.path, dtype=dtype or "auto", output_loading_info=True, **_careful(), use_safetensors=True
            )
        except Exception as error:  # broken files raise whatever reads them first
            raise ModelError(f"{place.name} is no model that does '{kind}' ({_first_line(error)})") from error
    _check_head(place, kind, report["missing_keys"])
    model.name_or_path = model.config._name_or_path = place.name  # not where the Hub's client put it
    model.config._commit_hash = place.revision
    return model.eval()


def _auto_class(place: Place, kind: str) -> str:
    """Name the class that loads a model; of those that write, some read with an encoder (T5, BART)."""
    apart = AUTO[kind] == CAUSAL and getattr(_config(place), "is_encoder_decoder", False)
    return "AutoModelForSeq2SeqLM" if apart else AUTO[kind]


def _check_trained(place: Place, kind: str) -> None:
    """Refuse a model that was saved with the head of another task: its weights may fit this one's by chance."""
    name = _architecture(_config(place))
    own = _kind_of_head(name)
    if own is not None and AUTO[own] != AUTO[kind]:
        raise ModelError(
            f"{place.name} was not trained for '{kind}': it is a {name}, which does '{own}'; name that task, or "
            "another model"
        )


def _check_head(place: Place, kind: str, missing: Any) -> None:
    if missing:
        raise ModelError(
            f"{place.name} was not trained for '{kind}': it has no weights for {', '.join(sorted(missing)[:3])}, so "
            "its answers would be random; fine-tune it first, or name another task"
        )


def load_processor(place: Place, kind: str) -> Any:
    """Load the tokenizer or the image processor that was saved with a model."""
    transformers = import_transformers()
    images = kind == "image"
    what = "image processor" if images else "tokenizer"
    if not has_processor(place, kind):  # transformers would make up a tokenizer that knows no words
        raise ModelError(
            f"there is no {what} beside the model in {place.name}: save it there, {what.split()[-1]}.save_pretrained"
            f"(directory), or say where another is, with tokenizer=… or --tokenizer"
        )
    auto = transformers.AutoImageProcessor if images else transformers.AutoTokenizer
    with quiet():
        try:
            processor = auto.from_pretrained(place.path, **_careful())
        except Exception as error:  # as above; tokenizers raise plain ones
            raise ModelError(f"the {what} of {place.name} cannot be loaded ({_first_line(error)})") from error
    if not images:
        processor.name_or_path = place.name
    return processor


def has_processor(place: Place, kind: str) -> bool:
    """Say whether a tokenizer or an image processor was saved there."""
    files = PROCESSORS if kind == "image" else VOCABULARIES
    return any(any(place.path.glob(pattern)) for pattern in files)


def kind_of(place: Place) -> str:
    """Say which kind of task a model was trained for, by the class it was saved as."""
    config = _config(place)
    name = _architecture(config)
    kind = _kind_of_head(name)
    if kind is None:
        raise ModelError(
            f"{place.name} does not say what it does ('{name}'): name the task with --task, one of {', '.join(AUTO)}"
        )
    if kind != "classification":
        return kind
    if config.problem_type == "multi_label_classification":
        return "multi-label"
    return "regression" if config.num_labels == 1 else kind


def _architecture(config: Any) -> str:
    """Return the name of the class that a model was saved as, if its configuration says it."""
    return str((config.architectures or [""])[0])


def _kind_of_head(architecture: str) -> str | None:
    return next((kind for head, kind in HEADS.items() if architecture.endswith(head)), None)


def _config(place: Place) -> Any:
    transformers = import_transformers()
    try:
        return transformers.AutoConfig.from_pretrained(place.path, **_careful())
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(
            f"{place.name} is no model of transformers ({_first_line(error)}): give the name of one on the Hub, or a "
            "directory that save_pretrained wrote"
        ) from error


def labels_of(model: nn.Module) -> list[str] | None:
    """Return the names of a model's labels in its order, if it was given any."""
    names = getattr(getattr(model, "config", None), "id2label", None) or {}
    labels = [str(name) for _, name in sorted(names.items())]
    return labels if len(labels) > 1 else None


def import_transformers() -> Any:
    """Import transformers, or say what to install."""
    try:
        import transformers
    except ImportError as error:
        raise DiffMaskError("loading a model needs transformers: pip install 'diffmask[text]'") from error
    return transformers


def _careful() -> dict[str, bool]:
    return {"local_files_only": True, "trust_remote_code": False}


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers from drawing bars and from warning of what is checked here; leave its settings as they were."""
    from transformers.utils import logging

    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    try:
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        logging.set_verbosity_error()  # type: ignore[no-untyped-call]
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
