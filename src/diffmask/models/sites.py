"""Read and replace states inside an unmodified model. The only file that touches hooks.

with capture(sites) as states:             # look
    model(x)
with replace(sites["block.3"], state):     # run again with another state there
    model(x)
with resume(sites["block.3"], state, states):  # the same, without computing what came before
    model(x)
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from inspect import signature
from itertools import count
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from ..errors import SiteError
from ..registry import unknown


@dataclass(frozen=True, eq=False)
class Site:
    """A named place in a model: the input or the output of a module at one of its calls.

    `item` picks the tensor: a position or a name among the arguments, or in a tuple or mapping output.
    A module that runs `calls` times in one forward pass (shared layers) has one site per `call`.
    """

    name: str
    module: nn.Module
    side: Literal["input", "output"] = "output"
    item: int | str = 0
    call: int = 0
    calls: int = 1


class Sites(Sequence[Site]):
    """The sites of a model in forward order, by position or by name."""

    def __init__(self, sites: Iterable[Site]) -> None:
        self._sites = tuple(sites)
        if not self._sites:
            raise SiteError("a model needs at least one site: name the module whose output holds one state per unit")
        if len(set(self.names)) < len(self):
            raise SiteError(f"two sites share a name; give each its own: {', '.join(self.names)}")
        self._check_nesting()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(site.name for site in self._sites)

    def __len__(self) -> int:
        return len(self._sites)

    def _check_nesting(self) -> None:
        """Refuse a repeated module inside another site: when that is skipped, its calls could not be told apart."""
        for inner in (site for site in self._sites if site.calls > 1):
            for outer in self._sites:
                if outer.module is not inner.module and any(m is inner.module for m in outer.module.modules()):
                    raise SiteError(f"site '{inner.name}' runs several times inside site '{outer.name}': leave one out")

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return self._sites[key]
        if key not in self.names:
            raise SiteError(unknown("site", key, self.names))
        return self._sites[self.names.index(key)]


class States(dict[str, Tensor]):
    """What `capture` saw: the state at each site by name, and the whole outputs `resume` hands back."""

    def __init__(self, sites: Iterable[Site]) -> None:
        super().__init__()
        self.sites = tuple(sites)
        self.outputs: dict[str, Any] = {}
        self.visits: Counter[str] = Counter()

    def __missing__(self, name: str) -> Tensor:
        known = [site.name for site in self.sites]
        if name in known:
            raise SiteError(f"site '{name}' was not reached: run the model inside `with capture(...)` first")
        raise SiteError(unknown("captured site", name, known))

    def check_single(self, sites: Iterable[Site]) -> None:
        """Refuse sites that one pass reached several times, and forget other states it did: none can stand for all."""
        names = {site.name for site in sites}
        for name in [name for name, times in self.visits.items() if times > 1]:
            if name in names:
                raise SiteError(
                    f"site '{name}' ran {self.visits[name]} times in one pass: give an example to get one site per "
                    "call, adapt(model, example=batch)"
                )
            del self[name]

    def up_to(self, site: Site) -> list[Site]:
        """Return the captured sites from the first the model reached to `site`."""
        self[site.name]
        by_name = {s.name: s for s in self.sites}
        reached = list(self)  # in the order of the pass, whatever order the sites were listed in
        return [by_name[name] for name in reached[: reached.index(site.name) + 1]]


@contextmanager
def capture(sites: Iterable[Site]) -> Iterator[States]:
    """Record the state at every site while the model runs inside the block."""
    states = States(sites)

    def record(site: Site, state: Tensor, whole: Any) -> None:
        states.visits[site.name] += 1
        state = states[site.name] = state.clone()  # a model that goes on in place would change what was seen
        if site.side == "output":
            states.outputs[site.name] = _put(whole, site.item, state)

    with ExitStack() as stack:
        for site in states.sites:
            stack.enter_context(_visit(site, record))
        yield states


@contextmanager
def replace(site: Site, state: Tensor) -> Iterator[None]:
    """Put `state` in place of what the model computes at `site`."""
    reached = False

    def swap(site: Site, current: Tensor, whole: Any) -> Tensor:
        nonlocal reached
        reached = True
        return _fitting(site, current, state)

    with _visit(site, swap):
        yield
    _check_reached(site, reached)


@contextmanager
def resume(site: Site, state: Tensor, states: States) -> Iterator[None]:
    """Replace the state at `site` and run only what comes after it.

    Every earlier captured module hands back what it gave in the captured pass instead of computing it again;
    the caller still runs the whole model, so no knowledge of its code is needed.
    """
    answers: dict[nn.Module, dict[int, Callable[[], Any]]] = defaultdict(dict)
    reached = site.side == "input"  # then `replace` checks it

    def hand_back(earlier: Site) -> Any:
        return _put(states.outputs[earlier.name], earlier.item, states[earlier.name].clone())

    def hand_new() -> Any:
        nonlocal reached
        reached = True
        return _put(states.outputs[site.name], site.item, _fitting(site, states[site.name], state))

    for earlier in states.up_to(site):
        if earlier.side == "output":
            answers[earlier.module][earlier.call] = partial(hand_back, earlier)
    if site.side == "output":
        _fitting(site, states[site.name], state)
        answers[site.module][site.call] = hand_new
    with ExitStack() as stack:
        for module, by_call in answers.items():
            calls = next(s.calls for s in states.sites if s.module is module)
            stack.enter_context(_answer(module, by_call, calls))
        if site.side == "input":
            stack.enter_context(replace(site, state))
        yield
    _check_reached(site, reached)


def trace(sites: Iterable[Site], run: Callable[[], Any]) -> list[Site]:
    """List the sites in the order in which `run` reaches them, a shared module as often as it is called."""
    order: list[Site] = []

    def note(site: Site, state: Tensor, whole: Any) -> None:
        order.append(site)

    with ExitStack() as stack:
        for site in sites:
            stack.enter_context(_visit(site, note))
        run()
    return order


@contextmanager
def _visit(site: Site, visit: Callable[[Site, Tensor, Any], Tensor | None]) -> Iterator[None]:
    """Call `visit` with the state at `site`; what it returns, if anything, takes the state's place."""
    turn = count()

    def mine() -> bool:
        return next(turn) % site.calls == site.call

    def on_output(module: nn.Module, args: Any, output: Any) -> Any:
        if mine() and (new := visit(site, _pick(site, output, site.item), output)) is not None:
            return _put(output, site.item, new)

    def on_input(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not mine():
            return None
        key = _argument(site, args, kwargs)
        new = visit(site, _pick(site, args if isinstance(key, int) else kwargs, key), None)
        if new is None:
            return None
        return (_put(args, key, new), kwargs) if isinstance(key, int) else (args, {**kwargs, key: new})

    if site.side == "output":
        handle = site.module.register_forward_hook(on_output)
    else:
        handle = site.module.register_forward_pre_hook(on_input, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def _answer(module: nn.Module, by_call: Mapping[int, Callable[[], Any]], calls: int) -> Iterator[None]:
    """Let `module` return a given answer at some of its calls instead of running."""
    turn = count()
    forward, own = module.forward, "forward" in vars(module)

    @wraps(forward)  # so that its signature still names the arguments
    def answer(*args: Any, **kwargs: Any) -> Any:
        call = next(turn) % calls
        return by_call[call]() if call in by_call else forward(*args, **kwargs)

    module.forward = answer
    try:
        yield
    finally:
        if own:  # somebody, e.g. Accelerate, had set a forward of their own on this module
            module.forward = forward
        else:
            del module.forward


def _argument(site: Site, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int | str:
    """Find where the caller passed the site's argument: by position or by keyword."""
    item = site.item
    names = [name for name in signature(site.module.forward).parameters if name not in ("args", "kwargs")]
    if isinstance(item, str) and item not in kwargs and item in names:
        item = names.index(item)
    elif isinstance(item, int) and item >= len(args):
        left = [name for name in names if name in kwargs] + [name for name in kwargs if name not in names]
        item = left[item - len(args)] if item - len(args) < len(left) else item
    return item


def _pick(site: Site, holder: Any, item: int | str) -> Tensor:
    """Take the state out of a tensor, a tuple or a mapping."""
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


def _put(holder: Any, item: int | str, state: Tensor) -> Any:
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


def _fitting(site: Site, current: Tensor, state: Tensor) -> Tensor:
    """Refuse a state of another shape: broadcasting it would change what the model sees."""
    if state.shape != current.shape:
        raise SiteError(
            f"site '{site.name}' holds a state of shape {tuple(current.shape)}, got {tuple(state.shape)}: "
            "pass one state per unit of the same batch"
        )
    # A copy: a model that goes on in place must not change the caller's state.
    return state.to(current.dtype, copy=True) if torch.is_floating_point(current) else state.clone()


def _check_reached(site: Site, reached: bool) -> None:
    if not reached:  # a replacement that never happened would pass for an explanation
        raise SiteError(
            f"site '{site.name}' was not reached, so nothing was replaced there: run the model inside the block"
        )
