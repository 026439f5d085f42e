"""Read and replace states inside an unmodified model. The only file that touches hooks.

with capture(sites) as states:             # look
    model(x)
with replace(sites["block.3"], state):     # run again with another state there
    model(x)
with resume(sites["block.3"], state, states):  # the same, without computing what came before
    model(x)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial, wraps
from itertools import count
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..errors import SiteError
from .packing import argument_of, holds_tensor, pick, put_back
from .site import Site as Site
from .site import Sites as Sites
from .site import States as States


class Reached(Exception):
    """Ends a pass at the last site whose state is needed."""


@contextmanager
def capture(
    sites: Iterable[Site], how: Literal["copy", "watch", "both"] = "copy", last: Site | None = None
) -> Iterator[States]:
    """Record the state at every site while the model runs inside the block, which ends at the site `last`, if given.

    Watched states are the model's own tensors, not copies: `states.overwritten` then says whether it went on in place
    and changed what was seen. With "both" they are copies, and what they were copied from is compared with them.
    """
    states = States(sites, copied=how != "watch")

    def record(site: Site, tensor: Tensor, whole: Any) -> None:
        states.visits[site.name] += 1
        seen = tensor
        if not torch.is_grad_enabled():  # what was fine-tuned with checkpoints asks for gradients of its embeddings
            tensor = tensor.detach()
        if how != "watch":
            tensor = tensor.clone()  # a model that goes on in place would change what was seen
        if how != "copy":
            states.watch(seen, seen if how == "watch" else tensor)
        states[site.name] = site.state_of(tensor)
        if site.prefix:
            states.prefixes[site.name] = site.turned(tensor)[:, : site.prefix]
        if site.side == "output":
            states.outputs[site.name] = put_back(whole, site.item, tensor)
        if site is last:
            raise Reached

    with ExitStack() as stack, suppress(Reached):
        for site in states.sites:
            stack.enter_context(_visit(site, record))
        yield states


@contextmanager
def replace(site: Site, state: Tensor) -> Iterator[None]:
    """Put `state` in place of what the model computes at `site`."""
    reached = False
    original: list[Tensor] = []

    def swap(site: Site, current: Tensor, whole: Any) -> Tensor:
        nonlocal reached
        reached = True
        original[:] = [site.state_of(current)]
        return site.with_state(current, _fitting(site, original[0], state))

    with _visit(site, swap), _replace_echo(site, original, state):
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
        if not states.copied:  # the model was seen to leave its states alone
            return states.outputs[earlier.name]
        return _put_state(earlier, states.outputs[earlier.name], states[earlier.name].clone())

    def hand_new() -> Any:
        nonlocal reached
        reached = True
        return _put_state(site, states.outputs[site.name], _fitting(site, states[site.name], state))

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
        else:
            stack.enter_context(_replace_echo(site, [states[site.name]] if site.echo else [], state))
        yield
    _check_reached(site, reached)


@contextmanager
def _replace_echo(site: Site, original: Sequence[Tensor], state: Tensor) -> Iterator[None]:
    """Replace the state also where the model reads the same one position later, as far as it is the same there."""

    def swap(echo: Site, current: Tensor, whole: Any) -> Tensor | None:
        if current.shape != original[0].shape:
            return None  # the decoder was given something of its own to read
        same = (current[:, 1:] == original[0][:, :-1]).all(-1, keepdim=True)
        return torch.cat([current[:, :1], torch.where(same, state[:, :-1].to(current), current[:, 1:])], dim=1)

    with nullcontext() if site.echo is None else _visit(site.echo, swap):
        yield


@contextmanager
def answer(outputs: Mapping[nn.Module, Any]) -> Iterator[None]:
    """Let modules return what they are given, as it is, at every call instead of running."""
    with ExitStack() as stack:
        for module, output in outputs.items():
            stack.enter_context(_answer(module, {0: partial(_same, output)}, 1))
        yield


def _same(output: Any) -> Any:
    return output


@contextmanager
def wrapped(modules: Iterable[nn.Module], wrap: Callable[[nn.Module, Callable[..., Any]], Any]) -> Iterator[None]:
    """Let modules compute by `wrap(module, forward)` in place of their forward; hooks still run around it."""
    with ExitStack() as stack:
        for module in modules:
            stack.enter_context(_forward(module, wrap(module, module.forward)))
        yield


def trace(sites: Iterable[Site], run: Callable[[], Any]) -> list[Site]:
    """List the sites in the order in which `run` reaches them, a shared module as often as it is called."""
    order: list[Site] = []

    def note(site: Site, tensor: Tensor, whole: Any) -> None:
        order.append(site)

    with ExitStack() as stack:
        for site in sites:
            stack.enter_context(_visit(site, note))
        run()
    return order


@contextmanager
def _visit(site: Site, visit: Callable[[Site, Tensor, Any], Tensor | None]) -> Iterator[None]:
    """Call `visit` with the tensor at `site`; what it returns, if anything, takes the tensor's place."""
    turn = count()

    def mine() -> bool:
        return next(turn) % site.calls == site.call

    def on_output(module: nn.Module, args: Any, output: Any) -> Any:
        if site.optional and not holds_tensor(output, site.item):
            return None
        if mine() and (new := visit(site, pick(site, output, site.item), output)) is not None:
            return put_back(output, site.item, new)

    def on_input(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not mine():
            return None
        key = argument_of(site, args, kwargs)
        new = visit(site, pick(site, args if isinstance(key, int) else kwargs, key), None)
        if new is None:
            return None
        return (put_back(args, key, new), kwargs) if isinstance(key, int) else (args, {**kwargs, key: new})

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
    turn, forward = count(), module.forward

    @wraps(forward)  # so that its signature still names the arguments
    def answer(*args: Any, **kwargs: Any) -> Any:
        call = next(turn) % calls
        return by_call[call]() if call in by_call else forward(*args, **kwargs)

    with _forward(module, answer):
        yield


@contextmanager
def _forward(module: nn.Module, new: Callable[..., Any]) -> Iterator[None]:
    """Give a module another forward, and its own back."""
    forward, own = module.forward, "forward" in vars(module)
    module.forward = new
    try:
        yield
    finally:
        if own:  # somebody, e.g. Accelerate, had set a forward of their own on this module
            module.forward = forward
        else:
            del module.forward


def _put_state(site: Site, holder: Any, state: Tensor) -> Any:
    """Return a copy of what a module gave with another state in it."""
    return put_back(holder, site.item, site.with_state(pick(site, holder, site.item), state))


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
