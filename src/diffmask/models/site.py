"""The nouns: a place in a model, the places of a model, and what was seen there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..errors import SiteError
from ..registry import unknown


@dataclass(frozen=True, eq=False)
class Site:
    """A named place in a model: the input or the output of a module at one of its calls.

    `item` picks the tensor: a position or a name among the arguments, or in a tuple or mapping output.
    A module that runs `calls` times in one forward pass (shared layers) has one site per `call`. Where an `optional`
    site holds no tensor, nothing is captured. The state is (example, position, hidden), whatever the tensor is: of one
    laid out as a `grid` (example, hidden, row, column) the positions are read row by row, in `time` they stand before
    the examples, and the first `prefix` positions of a line, such as [CLS] before the patches of an image, are no part
    of it and always stay. Where the model reads the same again one position later, that is the site's `echo`.
    """

    name: str
    module: nn.Module
    side: Literal["input", "output"] = "output"
    item: int | str = 0
    call: int = 0
    calls: int = 1
    optional: bool = False
    layout: Literal["line", "time", "grid"] = "line"
    prefix: int = 0
    echo: Site | None = None

    def state_of(self, tensor: Tensor) -> Tensor:
        """Return the part of a tensor that is the state here."""
        if self.layout == "grid":
            return tensor.flatten(2).transpose(1, 2)
        return self.turned(tensor)[:, self.prefix :] if self.prefix else self.turned(tensor)

    def with_state(self, tensor: Tensor, state: Tensor) -> Tensor:
        """Return a tensor that has another state, and is the same elsewhere."""
        if self.layout == "grid":
            return state.transpose(1, 2).reshape(tensor.shape)
        whole = torch.cat([self.turned(tensor)[:, : self.prefix], state], dim=1) if self.prefix else state
        return self.turned(whole)

    def turned(self, tensor: Tensor) -> Tensor:
        """Put examples before time in what the model has at this site, or time before them again."""
        return tensor.transpose(0, 1) if self.layout == "time" and tensor.dim() > 1 else tensor


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
    """What `capture` saw: the state at each site by name, and the whole outputs `resume` hands back.

    They are copies, or the model's own tensors; `watched` are those with what was written down of them and when.
    """

    def __init__(self, sites: Iterable[Site], copied: bool = True) -> None:
        super().__init__()
        self.sites, self.copied = tuple(sites), copied
        self.watched: list[tuple[Tensor, Tensor, int]] = []
        self.outputs: dict[str, Any] = {}
        self.prefixes: dict[str, Tensor] = {}  # what stands before the state, at sites where something does
        self.visits: Counter[str] = Counter()

    def __missing__(self, name: str) -> Tensor:
        known = [site.name for site in self.sites]
        if name in known:
            raise SiteError(f"site '{name}' was not reached: run the model inside `with capture(...)` first")
        raise SiteError(unknown("captured site", name, known))

    def watch(self, tensor: Tensor, written: Tensor) -> None:
        """Note which version of a tensor was seen; one made in inference mode does not tell, and counts as changed."""
        self.watched.append((tensor, written, -1 if tensor.is_inference() else tensor._version))

    @property
    def overwritten(self) -> bool:
        """Whether the model changed a tensor in place after it was seen, by its version or by a copy."""
        return any(
            tensor.is_inference() or tensor._version != seen or not (tensor is written or torch.equal(tensor, written))
            for tensor, written, seen in self.watched
        )

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

    def forget_after(self, sites: Iterable[Site]) -> None:
        """Let go of every state that no run from one of these sites on asks for."""
        needed = {before.name for site in sites for before in self.up_to(site)}
        for known in (self, self.outputs, self.prefixes):
            for name in [name for name in known if name not in needed]:
                del known[name]
