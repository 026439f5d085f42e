"""Make the model and the task that the settings of a run describe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import SettingError
from ..explaining.pretrained import as_dtype
from ..models.adapter import Adapter
from ..models.adapting import adapt, tell_padding
from ..models.hub import Place, fetch
from ..models.pretrained import labels_of, load_model, load_processor
from ..tasks.described import make_task
from ..tasks.readers import read_examples, split
from ..tasks.task import Task
from ..training.fit import check_answer, check_fit
from .common import complain

if TYPE_CHECKING:
    from .run_config import RunConfig


def prepare(settings: RunConfig, place: Place) -> tuple[Adapter, Task]:
    """Read the data before the model is loaded: a missing column should not take minutes to be found.

    What cannot be fitted is refused here, before anything is written.
    """
    kind = settings.task.kind
    train, validation = _data(settings)
    processor = load_processor(fetch(settings.tokenizer, None, "tokenizer") if settings.tokenizer else place, kind)
    if kind != "image":
        _pad(processor)
    dtype = None if settings.dtype == "auto" else as_dtype(settings.dtype)
    loaded = load_model(place, kind, dtype)
    if kind != "image":
        tell_padding(loaded, processor)
    model = adapt(loaded, processor, interpolate=kind == "image" and settings.task.interpolate)
    described = settings.task.described(labels_of(model.model), model.patch)
    task = make_task(described, processor, train, validation)
    check_fit(model, task)
    if kind != "image":
        check_answer(model, task)
    return model, task


def _data(settings: RunConfig) -> tuple[Sequence[Any], Sequence[Any]]:
    data, images = settings.data, settings.task.kind == "image"
    if not data.train:
        raise SettingError("there is nothing to fit to: name a table, a folder or a data set, --data train.csv")
    examples = read_examples(data.train, data, images)
    if data.validation:
        return examples, read_examples(data.validation, data, images)
    return split(examples, data.share, settings.fit.seed)


def _pad(tokenizer: Any) -> None:
    """Pad with the end of a text where a tokenizer has nothing else, as for most causal models."""
    if tokenizer.pad_token is None and tokenizer.eos_token is not None:
        tokenizer.pad_token = tokenizer.eos_token
        complain.print(f"the tokenizer has no padding; '{tokenizer.eos_token}' pads", highlight=False, markup=False)
