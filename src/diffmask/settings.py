"""Settings are frozen dataclasses; this turns them into plain data and back, naming what does not fit."""

from __future__ import annotations

import dataclasses
import functools
import json
import typing
from typing import Any, TypeVar

from .errors import SettingError
from .registry import unknown

T = TypeVar("T")


def to_dict(settings: Any) -> dict[str, Any]:
    """Return nested settings as plain data, ready for JSON or TOML."""
    return dataclasses.asdict(settings)


def from_dict(kind: type[T], data: dict[str, Any], source: str = "settings") -> T:
    """Build settings from plain data; what is left out keeps its default."""
    known = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(kind)
    for name in data:
        if name not in known:
            raise SettingError(f"{source}: {unknown('setting', name, known)}")
    return kind(**{name: _value(hints[name], value, f"{source}.{name}") for name, value in data.items()})


def check_choices(settings: Any, source: str) -> None:
    """Refuse a value that is not among those its `Literal` type lists."""
    for name, hint in typing.get_type_hints(type(settings)).items():
        choices, value = typing.get_args(hint), getattr(settings, name)
        if typing.get_origin(hint) is typing.Literal and value not in choices:
            raise SettingError(f"{source}.{name}: {unknown('choice', str(value), choices)}")


def _value(hint: Any, value: Any, source: str) -> Any:
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, dict):
            raise SettingError(f"{source} is a group of settings, got {value!r}")
        return from_dict(typing.cast(type[Any], hint), value, source)
    if hint in (int, float, bool, str):
        return _plain(hint, value, source)
    if typing.get_origin(hint) is tuple and isinstance(value, list):
        return tuple(value)  # JSON and TOML know no tuples
    if typing.get_origin(hint) is typing.Literal and value not in typing.get_args(hint):
        raise SettingError(f"{source}: {unknown('choice', str(value), typing.get_args(hint))}")
    return value


def _plain(hint: type, value: Any, source: str) -> Any:
    whole = hint is float and isinstance(value, int) and not isinstance(value, bool)
    if whole:
        return float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise SettingError(f"{source} takes {hint.__name__}, got {value!r}")
    return value


def change(settings: T, changes: dict[str, Any]) -> T:
    """Return settings with some fields changed; a field is found by its name in the groups inside, too.

    All of them change at once: settings that go together are only checked together. A group may be given whole, or as
    plain data with some of its fields.
    """
    return typing.cast(T, _changed(settings, _paths(settings, changes)))


def _paths(settings: Any, changes: dict[str, Any]) -> dict[tuple[str, ...], Any]:
    """Map where each changed field is to what it becomes."""
    homes, paths = _homes(settings), dict[tuple[str, ...], Any]()
    for name in changes:
        if name not in homes:
            raise SettingError(unknown("setting", name, homes))
    for name in sorted(changes, key=lambda name: len(homes[name])):  # a field of its own has the last word on a group
        home, value = homes[name], changes[name]
        old = functools.reduce(getattr, home, settings)
        inside = _paths(old, value) if dataclasses.is_dataclass(old) and isinstance(value, dict) else {(): value}
        paths |= {(*home, *path): found for path, found in inside.items()}
    return paths


def _homes(settings: Any, path: tuple[str, ...] = ()) -> dict[str, tuple[str, ...]]:
    """Map each field's name to where it is; of two fields of one name, the outer one has it."""
    homes: dict[str, tuple[str, ...]] = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if dataclasses.is_dataclass(value):
            homes = {**_homes(value, (*path, field.name)), **homes}
    return {**homes, **{field.name: (*path, field.name) for field in dataclasses.fields(settings)}}


def _changed(settings: Any, changes: dict[tuple[str, ...], Any]) -> Any:
    """Change fields by their paths; of a group that is replaced too, the fields of the new one."""
    fields = {}
    for name in dict.fromkeys(path[0] for path in changes):
        value = _field(settings, name, changes[(name,)]) if (name,) in changes else getattr(settings, name)
        inside = {path[1:]: found for path, found in changes.items() if path[0] == name and path[1:]}
        fields[name] = _changed(value, inside) if inside else value
    return dataclasses.replace(settings, **fields)


def _field(settings: Any, name: str, value: Any) -> Any:
    """Return what a field becomes: a group as it is, or a value of its type."""
    hint = typing.get_type_hints(type(settings))[name]
    whole = dataclasses.is_dataclass(hint) and isinstance(value, typing.cast(type, hint))
    return value if whole else _value(hint, value, name)


def merge(settings: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return nested plain data with changes laid over it; of two groups of one name, what both have is merged.

    >>> merge({"fit": {"steps": 1, "seed": 0}}, {"fit": {"steps": 2}})
    {'fit': {'steps': 2, 'seed': 0}}
    """
    merged = dict(settings)
    for name, value in changes.items():
        old = merged.get(name)
        merged[name] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def to_toml(settings: dict[str, Any], path: tuple[str, ...] = ()) -> str:
    """Write nested plain data as TOML, plain values before the groups.

    >>> print(to_toml({"fit": {"steps": 2, "probe": {"kind": "input"}}, "model": "a"}))
    model = "a"
    <BLANKLINE>
    [fit]
    steps = 2
    <BLANKLINE>
    [fit.probe]
    kind = "input"
    <BLANKLINE>
    """
    groups = {name: value for name, value in settings.items() if isinstance(value, dict)}
    lines = [f"{name} = {_toml(value)}\n" for name, value in settings.items() if name not in groups]
    head = [f"\n[{'.'.join(path)}]\n"] if path and lines else []
    return "".join([*head, *lines, *(to_toml(group, (*path, name)) for name, group in groups.items())])


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):  # TOML's strings are JSON's, but for one letter
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return "[" + ", ".join(map(_toml, value)) + "]" if isinstance(value, list | tuple) else repr(value)
