"""A model as the library sees it: something to run on a batch, and a list of sites in forward order."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import SiteError
from ..registry import unknown
from ..types import Batch
from .sites import Site, Sites, trace


class Adapter:
    """Any PyTorch model with its sites; the model itself is never subclassed or edited."""

    def __init__(self, model: nn.Module, sites: Sequence[Site]) -> None:
        self.model = model
        self.sites = Sites(sites)

    def __call__(self, batch: Batch) -> Any:
        return self.model(**batch.inputs)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Switch dropout and weight gradients off, and put each module back as it was."""
        modes = {module: module.training for module in self.model.modules()}
        grads = {parameter: parameter.requires_grad for parameter in self.model.parameters()}
        try:
            self.model.eval().requires_grad_(False)
            with _differentiable_recurrence(self.model):
                yield
        finally:
            for module, training in modes.items():
                module.training = training
            for parameter, requires_grad in grads.items():
                parameter.requires_grad_(requires_grad)

    @property
    def fingerprint(self) -> str:
        """A hash of the weights, by which a saved probe knows its model."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.model.state_dict().items()):
            if isinstance(tensor, Tensor):
                digest.update(f"{name} {tuple(tensor.shape)}".encode())
                digest.update(_sample(tensor).numpy().tobytes())
        return digest.hexdigest()[:16]


@contextmanager
def _differentiable_recurrence(model: nn.Module) -> Iterator[None]:
    """Let gradients through recurrent layers on a GPU, where cuDNN refuses them in eval mode.

    Without dropout the two modes of such a layer compute the same; with it, PyTorch's own kernels are used.
    """
    layers = [module for module in model.modules() if isinstance(module, nn.RNNBase)]
    for layer in layers:
        layer.training = layer.dropout == 0
    with torch.backends.cudnn.flags(enabled=all(layer.training for layer in layers)):
        yield


def _sample(tensor: Tensor, most: int = 4096) -> Tensor:
    """Take evenly spaced values: enough to tell two models apart, cheap for a large one."""
    flat = tensor.detach().flatten()
    return flat[:: max(1, len(flat) // most)].to("cpu", torch.float32)


def adapt(model: nn.Module, sites: Sequence[Site | str] | None = None, example: Batch | None = None) -> Adapter:
    """Find the sites of `model` by structure, or take them by hand.

    >>> encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 2, enable_nested_tensor=False)
    >>> adapt(nn.Sequential(nn.Embedding(10, 8), encoder)).sites.names
    ('0', '1.layers.0', '1.layers.1')

    A string names a module, with ":input" for what goes into it. With an `example`, modules that run several
    times in one pass get one site per call.
    """
    found = find_sites(model) if sites is None else [_named(model, site) for site in sites]
    return Adapter(model, found if example is None else _per_call(model, found, example))


def find_sites(model: nn.Module) -> list[Site]:
    """Find the first embedding and the longest list of equal blocks, the places where units have states."""
    embeddings = [(name, module) for name, module in model.named_modules() if isinstance(module, nn.Embedding)]
    lists = [(name, module) for name, module in model.named_modules() if _is_block_list(module)]
    if not embeddings and not lists:
        raise SiteError(
            f"no sites found in {type(model).__name__}: it has no nn.Embedding and no nn.ModuleList of equal blocks. "
            'Name the modules whose outputs hold one state per unit: adapt(model, sites=["encoder", ...])'
        )
    longest = max(lists, key=lambda pair: len(list(pair[1].children())), default=None)
    blocks = [] if longest is None else [(f"{longest[0]}.{i}", b) for i, b in longest[1].named_children()]
    return [Site(name, module) for name, module in embeddings[:1] + blocks]


def _is_block_list(module: nn.Module) -> bool:
    return isinstance(module, nn.ModuleList) and len(module) > 0 and len({type(block) for block in module}) == 1


def _named(model: nn.Module, site: Site | str) -> Site:
    if isinstance(site, Site):
        return site
    path, _, side = site.partition(":")
    modules = dict(model.named_modules())
    if path not in modules or not path:
        raise SiteError(unknown(f"module in {type(model).__name__}", path, [name for name in modules if name]))
    if side not in ("", "input", "output"):
        raise SiteError(f"site '{site}': a module has an ':input' and an ':output', not '{side}'")
    return Site(site, modules[path], "input" if side == "input" else "output")


def _per_call(model: nn.Module, sites: Sequence[Site], example: Batch) -> list[Site]:
    """Order the sites as the forward pass reaches them; a module that runs several times gets one per call."""
    with torch.no_grad():
        order = trace(sites, lambda: model(**example.inputs))
    missing = [site.name for site in sites if site not in order]
    if missing:
        raise SiteError(f"site '{missing[0]}' was not reached when the model ran on the example: leave it out")
    calls, turn = Counter(order), Counter[Site]()
    found = []
    for site in order:
        if calls[site] == 1:
            found.append(site)
        else:
            found.append(replace(site, name=f"{site.name}@{turn[site]}", call=turn[site], calls=calls[site]))
            turn[site] += 1
    return found
