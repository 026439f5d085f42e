"""The settings of `diffmask fit`: from a file, from options over it, and back into a file that repeats the run."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from ..errors import SettingError, StorageError
from ..models.hub import Place, fetch
from ..models.pretrained import kind_of
from ..settings import from_dict, merge, to_dict, to_toml
from ..storage import write_file
from ..tasks.described import TaskConfig
from ..tasks.readers import DataConfig
from ..training.config import FitConfig, recipe
from ..training.fit import checkpoints
from ..training.pretrained import RECORD
from .common import read_text

FILE = "run.toml"
ELSEWHERE = "name another directory with --output"
PAIR = "pair"  # classification of two texts, as a person calls it
HOMES = {"kind": "probe", "members": "probe", "margin": "objective"}
RECIPES = {"image": "vision"}  # for everything else it is "text"


@dataclass(frozen=True)
class RunConfig:
    """Everything a fit depends on."""

    model: Annotated[str, "a directory, or a name on the Hub"] = ""
    revision: Annotated[str, "of a model on the Hub: a branch, a tag or a commit"] = ""
    tokenizer: Annotated[str, "where the tokenizer or image processor is, if not beside the model"] = ""
    dtype: Annotated[str, "what the model computes in: auto (as it was saved), float32, bfloat16 or float16"] = "auto"
    recipe: Annotated[str, "the settings to begin from; if it is empty, text or vision"] = ""
    data: DataConfig = field(default_factory=DataConfig)
    task: TaskConfig = field(default_factory=TaskConfig)
    fit: FitConfig = field(default_factory=FitConfig)


def read_config(path: Path | None) -> dict[str, Any]:
    """Read a TOML file into plain data."""
    if path is None:
        return {}
    try:
        return tomllib.loads(read_text(path, "a TOML file with the settings of a run"))
    except tomllib.TOMLDecodeError as error:
        raise SettingError(f"{path} is no TOML ({error}): mend that line, or make a file anew from options") from error


def resolve(given: dict[str, Any], source: str) -> tuple[RunConfig, Place]:
    """Fill in what was left open: the task from the model, the recipe from the task, paths in full."""
    groups = {name: _group(given, name, source) for name in ("data", "task", "fit")}
    model = given.get("model")
    if not isinstance(model, str) or not model:
        raise SettingError("no model is named: give a directory, or a name on the Hub")
    place = fetch(model, given.get("revision") or None)
    task = _task(groups["task"], groups["data"], place)
    name = given.get("recipe") or RECIPES.get(task["kind"], "text")
    fit = _fit(name, groups["fit"])
    found = {"model": place.name, "revision": place.revision or "", "recipe": name, "task": task, "fit": fit}
    data = {**groups["data"], **_in_full(groups["data"])}
    return from_dict(RunConfig, {**given, **found, "data": data}, source), place


def _group(given: Mapping[str, Any], name: str, source: str) -> dict[str, Any]:
    group = given.get(name, {})
    if not isinstance(group, dict):
        raise SettingError(f"{source}.{name} is a group of settings, got {group!r}: write them below [{name}]")
    return group


def _task(task: dict[str, Any], data: Mapping[str, Any], place: Place) -> dict[str, Any]:
    kind = task.get("kind") or kind_of(place)
    if task.get("unit") == "segment":
        raise SettingError(
            "unit 'segment' is for lists of segments, which only Python gives: take token, word or sentence"
        )
    if kind in (PAIR, "span") and not data.get("pair_column"):
        raise SettingError(f"task '{kind}' takes two texts: name the column of the second one, --pair-column")
    return {**task, "kind": "classification" if kind == PAIR else kind}


def _fit(name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Lay a file's settings over a recipe's, all at once: some only go together.

    Those that people change most may stand at the top of [fit] and are put where they belong.
    """
    fit = merge(to_dict(recipe(name)), {key: value for key, value in changes.items() if key not in HOMES})
    for key in HOMES.keys() & changes.keys():
        fit = merge(fit, {HOMES[key]: {key: changes[key]}})
    return fit


def _in_full(data: Mapping[str, Any]) -> dict[str, str]:
    """Write paths so that they lead there from anywhere."""
    named = {name: data[name] for name in ("train", "validation") if isinstance(data.get(name), str)}
    return {name: str(Path(path).resolve()) for name, path in named.items() if path and Path(path).exists()}


def write_config(config: RunConfig, directory: Path) -> None:
    """Write down all settings of a run, refusing a directory that holds a fit with others."""
    path, mine = directory / FILE, to_dict(config)
    begun, finished = checkpoints(directory), (directory / RECORD).exists()
    if finished and not (begun and path.exists()):
        raise StorageError(f"{directory} holds a finished fit, which is never overwritten: {ELSEWHERE}")
    if begun and path.exists() and (differs := sorted(_different(_before(path), _listed(mine)))):
        raise StorageError(_other_settings(directory, differs, [] if finished else begun))
    write_file(path, to_toml(mine).encode())


def _before(path: Path) -> dict[str, Any]:
    """Read what a run was made with; a file from before a setting was there had what is usual now."""
    found: dict[str, Any] = _listed(merge(to_dict(RunConfig()), read_config(path)))
    return found


def _other_settings(directory: Path, differs: Sequence[str], begun: Sequence[Path]) -> str:
    """Say which settings differ, and how to go on; what is finished is only ever removed by hand."""
    what = f"with other settings ({', '.join(differs[:5])} differ)"
    if not begun:
        return f"{directory} holds a finished fit {what}: {ELSEWHERE}"
    return (
        f"{directory} holds an unfinished fit {what}: go on with it by `diffmask fit --config {directory / FILE} "
        f"--output {directory}`, begin anew by removing {', '.join(map(str, begun))}, or {ELSEWHERE}"
    )


def _listed(value: Any) -> Any:
    """Write tuples as the lists that a file holds."""
    if isinstance(value, dict):
        return {name: _listed(item) for name, item in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _different(one: Any, other: Any, path: str = "") -> list[str]:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return [] if one == other else [path]
    names = dict.fromkeys([*one, *other])
    return [found for n in names for found in _different(one.get(n), other.get(n), f"{path}.{n}".lstrip("."))]
