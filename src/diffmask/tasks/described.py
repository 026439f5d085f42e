"""Tasks by name: what a task is made of in plain data, so that it can be made again from a file or a command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from ..errors import SettingError
from ..registry import Registry
from ..settings import check_choices
from .images import ImageClassification, PlainProcessor
from .task import Task
from .units import Unit

TASKS = Registry(
    "task",
    {
        "classification": "diffmask.tasks.text:TextClassification",
        "multi-label": "diffmask.tasks.text:MultiLabelClassification",
        "regression": "diffmask.tasks.text:TextRegression",
        "token": "diffmask.tasks.text:TokenClassification",
        "span": "diffmask.tasks.text:SpanAnswer",
        "next-token": "diffmask.tasks.text:NextToken",
        "continuation": "diffmask.tasks.continuation:Continuation",
        "image": "diffmask.tasks.images:ImageClassification",
    },
)
TEXT = ("labels", "unit", "keep", "gate", "gate_special", "ask", "around", "pad_to", "max_length", "strict")
IMAGE = ("labels", "patch", "column", "most_pixels", "interpolate", "size")
ASKED = ("next-token", "continuation")  # these know where they ask
TOKENIZER = ("pad_token", "truncation_side")  # what people change on a tokenizer after loading it


@dataclass(frozen=True)
class TaskConfig:
    """What is explained, and in which units; `described` turns it into what `make_task` takes."""

    kind: Annotated[str, "classification, multi-label, regression, token, span, next-token or image"] = "classification"
    unit: Annotated[Unit, "what is kept or dropped as a whole: token, word or sentence"] = "token"
    keep: Annotated[tuple[str, ...], "words that are never dropped"] = ()
    gate: Annotated[Literal["all", "first", "second"], "of a pair, the part that is gated"] = "all"
    special: Annotated[Literal["usual", "gated", "kept"], "whether tokens such as [CLS] can be dropped"] = "usual"
    ask: Annotated[
        Literal["nowhere", "first", "last"], "the position whose state gates read too, e.g. first for [CLS]"
    ] = "nowhere"
    around: Annotated[int, "units on each side whose mean state gates read too; 0: none"] = 0
    pad_to: Annotated[int, "pad batches to a multiple of so many tokens, as a model with windows would"] = 1
    max_length: Annotated[int, "tokens a text is cut to; 0 takes what the tokenizer says"] = 0
    strict: Annotated[bool, "refuse a text that is too long, not cut it"] = False
    interpolate: Annotated[bool, "images: stretch the model's positions to a size of image that is not its own"] = False

    def __post_init__(self) -> None:
        check_choices(self, "task")
        TASKS.get(self.kind)
        if self.max_length < 0:
            raise SettingError(f"task.max_length must be 0 or a number of tokens, got {self.max_length}")

    def described(self, labels: Sequence[str] | None, patch: tuple[int, int] | None) -> dict[str, Any]:
        """Describe a task of these settings for a model with these labels and patches."""
        labels = labels if TASKS.get(self.kind).labelled else None  # of other kinds, a model's labels mean nothing
        if self.kind == "image":
            return {"kind": self.kind, "settings": {"labels": labels, "patch": patch, "interpolate": self.interpolate}}
        settings = {name: getattr(self, name) for name in ("unit", "keep", "gate", "around", "pad_to", "strict")}
        settings |= {"labels": labels, "max_length": self.max_length or None}
        settings |= {} if self.special == "usual" else {"gate_special": self.special == "gated"}
        settings |= {} if self.kind in ASKED else {"ask": self.ask}
        return {"kind": self.kind, "settings": settings}


def describe(task: Task) -> dict[str, Any] | None:
    """Return a task without its data as plain data; None for one that only its author can make again."""
    kind = next((name for name in TASKS.names if type(task) is TASKS.get(name)), None)
    if kind is None or (isinstance(task, ImageClassification) and task.output is not None):
        return None
    names = IMAGE if kind == "image" else [name for name in TEXT if name != "ask" or kind not in ASKED]
    settings = {name: _plain(getattr(task, name)) for name in names}
    return {"kind": kind, "settings": settings, "processor": _describe_processor(task)}


def _plain(value: Any) -> Any:
    if isinstance(value, frozenset | set):
        return sorted(value)
    return list(value) if isinstance(value, tuple) else value


def _describe_processor(task: Any) -> dict[str, Any]:
    if hasattr(task, "tokenizer"):
        return {name: getattr(task.tokenizer, name, None) for name in TOKENIZER}
    return {"plain": asdict(task.processor)} if isinstance(task.processor, PlainProcessor) else {}


def make_task(
    described: Mapping[str, Any],
    processor: Any,
    train: Sequence[Any] | None = None,
    validation: Sequence[Any] | None = None,
) -> Task:
    """Make a task as described, with its own data and processor; without data it can explain, not be fitted."""
    kind, settings = described["kind"], dict(described["settings"])
    make = TASKS.get(kind)
    if kind == "image":
        sides = {name: tuple(settings[name]) for name in ("patch", "size") if settings.get(name) is not None}
        return make(processor, train, validation, **{**settings, **sides})
    return make(as_described(processor, described.get("processor", {})), train or [], validation or [], **settings)


def as_described(tokenizer: Any, wanted: Mapping[str, Any]) -> Any:
    """Change a tokenizer as it was changed when the probe was fitted, such as padding with the end of a text."""
    for name in TOKENIZER:
        if wanted.get(name) is not None and getattr(tokenizer, name, None) != wanted[name]:
            setattr(tokenizer, name, wanted[name])
    return tokenizer


def plain_processor(described: Mapping[str, Any]) -> PlainProcessor | None:
    """Return the plain processor of a task, if it has one; others are loaded with the model."""
    plain = described.get("processor", {}).get("plain")
    return (
        None if plain is None else PlainProcessor(*(tuple(plain[name]) for name in ("size", "image_mean", "image_std")))
    )
