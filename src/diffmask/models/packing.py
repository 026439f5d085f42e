"""The tensor that holds a state, in whatever a module takes or gives: tuples, mappings, outputs of transformers."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any, cast

from torch import Tensor

from ..errors import SiteError
from .site import Site


def argument_of(site: Site, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int | str:
    """Find where the caller passed the site's argument: by position or by keyword."""
    item = site.item
    if (item < len(args)) if isinstance(item, int) else item in kwargs:
        return item  # as nearly always; the signature takes long to read
    names = [name for name in signature(site.module.forward).parameters if name not in ("args", "kwargs")]
    if isinstance(item, str) and item in names:
        item = names.index(item)
    elif isinstance(item, int):
        left = [name for name in names if name in kwargs] + [name for name in kwargs if name not in names]
        item = left[item - len(args)] if item - len(args) < len(left) else item
    return item


def holds_tensor(output: Any, item: int | str) -> bool:
    return isinstance(output, Tensor) or (type(output) is tuple and isinstance(output[cast(int, item)], Tensor))


def pick(site: Site, holder: Any, item: int | str) -> Tensor:
    """Take the tensor that holds the state out of a tuple or a mapping, or as it is."""
    if isinstance(holder, Tensor):
        return holder
    if isinstance(holder, Mapping) and isinstance(item, int) and item not in holder:
        holder = tuple(holder.values())
    try:
        found = holder[item]
    except (IndexError, KeyError, TypeError):
        found = None
    if not isinstance(found, Tensor):
        raise SiteError(
            f"site '{site.name}' holds no tensor: the {site.side} of {type(site.module).__name__} has "
            f"{type(found).__name__} at item {item!r}; choose another with Site(..., item=...)"
        )
    return found


def put_back(holder: Any, item: int | str, state: Tensor) -> Any:
    """Return a copy of `holder` with `state` in the place `item`."""
    if isinstance(holder, Tensor):
        return state
    if isinstance(holder, Mapping):
        key = item if item in holder else list(holder)[cast(int, item)]
        changed = {**holder, key: state}
        return changed if type(holder) is dict else type(holder)(**changed)
    items = list(holder)
    items[cast(int, item)] = state
    return type(holder)(*items) if hasattr(holder, "_fields") else type(holder)(items)


def pick_tensor(site: Site, output: Any) -> Tensor:
    """Take the tensor that holds the state, with its examples first, out of what a module gave."""
    return site.turned(pick(site, output, site.item))


def put_tensor(site: Site, output: Any, tensor: Tensor) -> Any:
    """Return a copy of what a module gave with another tensor in the place of the one that holds the state."""
    return put_back(output, site.item, site.turned(tensor))
