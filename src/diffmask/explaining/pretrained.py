"""Load a saved probe beside the model it belongs to: from a directory or from the Hub, checked by its fingerprint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..errors import ModelError, SettingError, StorageError
from ..models.adapter import Adapter
from ..models.adapting import adapt, check_padding, tell_padding
from ..models.fingerprint import class_name
from ..models.hub import Place, fetch
from ..models.pretrained import has_processor, load_model, load_processor
from ..registry import unknown
from ..settings import from_dict
from ..tasks.described import TASKS, as_described, describe, make_task, plain_processor
from ..tasks.task import Task
from ..training.config import FitConfig
from ..training.fit import Fit
from ..training.pretrained import PROBE, RECORD, read_record
from ..training.saved import load_fit
from .embedded import KINDS, load_embedded

EMBEDDED = "embedded"
MOVED = "with model=… or --model"
SHARDED = "FSDP"  # which earlier records have before the class of a model that was fitted in parts
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16, "float64": torch.float64}


def from_pretrained(
    directory: str | Path,
    model: nn.Module | Adapter | str | Path | None = None,
    tokenizer: Any = None,
    revision: str | None = None,
    device: torch.device | str | None = None,
    dtype: torch.dtype | str | None = None,
    *,
    task: Task | None = None,
    strict: bool = False,
) -> Fit:
    """Load what `Fit.save_pretrained` wrote, from a directory or from the Hub, with its model.

    >>> from_pretrained("embedded").model.model.config.id2label[1]
    'positive'

    The model is found by the name it had, unless it is given: as a name, a directory, or loaded. `tokenizer` may be an
    image processor too. The weights must be those the probe was fitted to; `dtype` is changed after that is checked.
    With `strict`, a text that is too long is refused, not cut.
    """
    if not isinstance(directory, str | Path):
        raise SettingError(
            f"from_pretrained takes the directory of a saved probe or its name, got {type(directory).__name__}"
        )
    if str(directory).partition(":")[0] == EMBEDDED and not Path(directory).exists():
        _check_none_given(str(directory), model=model, tokenizer=tokenizer, task=task, revision=revision)
        return _moved(_embedded(str(directory), strict), device, dtype)
    place = fetch(directory, revision, "saved probe", [PROBE, RECORD])
    record = read_record(place.path)
    if record["task"] is not None and record["task"].get("kind") not in TASKS.names:
        raise StorageError(_unknown_task(f"kind {record['task'].get('kind')!r}"))
    if record["task"] is None and task is None:
        raise StorageError(
            f"{place.name} was fitted to a task of its author's, which only Python can make again: "
            "from_pretrained(…, task=…)"
        )
    if task is not None:
        _check_kind(place.name, record["task"], task)
    _check_class(place.name, record["base"].get("architecture"), model)
    adapted, processor = _base(place.name, record, model, tokenizer)
    task = task or _task(record["task"], processor, strict)
    fitted = load_fit(place.path / PROBE, adapted, task)
    if fitted.config != from_dict(FitConfig, record["settings"], f"{place.name}/{RECORD}"):
        raise StorageError(f"{place.name}: {PROBE} and {RECORD} are of different fits: save the probe again")
    return _moved(fitted, device, dtype)


def _check_none_given(name: str, **given: Any) -> None:
    """Refuse what the embedded probes would leave aside: they belong to the model that ships with them."""
    if named := [what for what, value in given.items() if value is not None]:
        value = given[named[0]]
        got = f"'{value}'" if isinstance(value, str | Path) else f"a {type(value).__name__}"
        raise SettingError(
            f"'{name}' comes with its own model and takes no {named[0]}, got {got}: fit a probe to a model of yours "
            "with `diffmask fit MODEL`, then name what that wrote, with --run or from_pretrained(DIRECTORY)"
        )


def _embedded(name: str, strict: bool) -> Fit:
    kind = name.partition(":")[2] or "input"
    if kind not in KINDS:
        raise SettingError(unknown("embedded probe", name, [EMBEDDED, *(f"{EMBEDDED}:{kind}" for kind in KINDS)]))
    return load_embedded(kind, strict=strict)


def _check_class(name: str, architecture: str | None, model: Any) -> None:
    """Refuse a model of another class before its sites are looked for."""
    if not isinstance(model, nn.Module | Adapter) or architecture is None:
        return
    given = class_name(model.model if isinstance(model, Adapter) else model)
    if given != architecture.removeprefix(SHARDED):
        raise StorageError(f"{name} belongs to a {architecture}, got a {given}: give the model it was fitted to")


def _check_kind(name: str, described: Mapping[str, Any] | None, task: Task) -> None:
    """Refuse a task of another kind; for one of the user's own class the user answers."""
    fitted, given = (None if each is None else each["kind"] for each in (described, describe(task)))
    if fitted and given and given != fitted:
        raise StorageError(
            f"{name} was fitted to a task of kind '{fitted}', got one of kind '{given}': pass a "
            f"{TASKS.get(fitted).__name__}, or leave task out"
        )


def _task(described: Mapping[str, Any], processor: Any, strict: bool) -> Task:
    settings = dict(described["settings"])
    if strict and "strict" in settings:
        settings["strict"] = True
    try:
        return make_task({**described, "settings": settings}, processor)
    except TypeError as error:
        raise StorageError(_unknown_task(str(error))) from error


def _unknown_task(why: str) -> str:
    return f"{RECORD} describes a task that this diffmask does not know ({why}): install the one that wrote it"


def _base(name: str, record: Mapping[str, Any], model: Any, processor: Any) -> tuple[Adapter, Any]:
    """Return the model of a record and its processor, loading what was not given."""
    base, described = record["base"], record["task"]
    processor = processor if processor is not None else plain_processor(described or {})
    if isinstance(model, nn.Module | Adapter) and (processor is not None or described is None):
        return _adapted(model, processor, base["sites"], described), processor
    if isinstance(model, nn.Module | Adapter):
        raise SettingError("a model that is given needs its tokenizer, or its image processor: pass tokenizer=…")
    if described is None:
        raise StorageError(f"{name} was fitted to a task of its author's: load its model and pass it, model=…")
    place = _place_of(name, base, model)
    kind = described["kind"]
    loaded = load_model(place, kind, as_dtype(base["dtype"]))
    if isinstance(processor, str | Path):
        processor = load_processor(fetch(processor, None, "tokenizer"), kind)
    elif processor is None:
        processor = load_processor(_beside(place, kind, base.get("tokenizer")), kind)
    processor = as_described(processor, described["processor"])
    if kind != "image":
        tell_padding(loaded, processor)
    return _adapted(loaded, processor, base["sites"], described), processor


def _place_of(name: str, base: Mapping[str, Any], model: str | Path | None) -> Place:
    if model is not None:
        return fetch(model)
    if base["model"] is None:
        raise StorageError(f"{name} belongs to a {base['architecture']} without a name: say where it is, {MOVED}")
    if base["local"] and not Path(base["model"]).is_dir():
        raise StorageError(
            f"{name} belongs to the model in {base['model']}, which is not there: say where it is now, {MOVED}"
        )
    return fetch(base["model"], base["revision"])


def _beside(place: Place, kind: str, other: str | None) -> Place:
    """Return where the tokenizer is: in another directory that was named, beside the model, or by a name on the Hub."""
    if other is None or (has_processor(place, kind) and not Path(other).is_dir()):
        return place
    return fetch(other, None, "tokenizer")


def _adapted(
    model: nn.Module | Adapter, processor: Any, sites: list[str], described: Mapping[str, Any] | None
) -> Adapter:
    """Find the sites by structure, and by name where others were chosen."""
    if isinstance(model, Adapter):
        check_padding(model.model, processor)
        return model
    stretch = bool((described or {}).get("settings", {}).get("interpolate", False))
    found = adapt(model, processor, interpolate=stretch)
    return found if list(found.sites.names) == sites else adapt(model, processor, sites=sites, interpolate=stretch)


def _moved(fitted: Fit, device: torch.device | str | None, dtype: torch.dtype | str | None) -> Fit:
    """Move model and probe; the fingerprint that was checked stays that of the weights as they were saved."""
    if dtype is not None:
        fitted.model.model.to(dtype=as_dtype(dtype))
    if device is not None:
        try:
            fitted.model.model.to(device)
        except (RuntimeError, AssertionError, AttributeError) as error:
            raise ModelError(
                f"the model cannot be moved to '{device}' ({str(error).splitlines()[0]}): give cpu, or cuda "
                "where there is a GPU"
            ) from error
    return replace(fitted, probe=fitted.probe.to(fitted.model.device))


def as_dtype(name: torch.dtype | str) -> torch.dtype:
    """Turn the name of a dtype into it."""
    if isinstance(name, torch.dtype):
        return name
    if name not in DTYPES:
        raise SettingError(unknown("dtype", name, DTYPES))
    return DTYPES[name]
