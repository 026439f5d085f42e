"""A model as the library sees it: something to run on a batch, and a list of sites in forward order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import SiteError
from ..types import Batch
from .sites import Site, Sites
from .structure import blocks_beside, find_sites, in_order_of_calls, named_site

INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes per value


class Adapter:
    """Any PyTorch model with its sites; the model itself is never subclassed or edited.

    `passed` are blocks that are no sites; a run that resumes after them need not compute them either.
    """

    def __init__(self, model: nn.Module, sites: Sequence[Site], passed: Sequence[Site] = ()) -> None:
        self.model, self.sites, self.passed = model, Sites(sites), tuple(passed)

    def __call__(self, batch: Batch) -> Any:
        return self.model(**batch.inputs)

    @property
    def device(self) -> torch.device:
        """Where the model is, or where its inputs go first."""
        return next((t.device for t in (*self.model.parameters(), *self.model.buffers())), torch.device("cpu"))

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Switch dropout and weight gradients off, and put everything back as it was."""
        modes = {module: module.training for module in self.model.modules()}
        grads = {parameter: parameter.requires_grad for parameter in self.model.parameters()}
        try:
            self.model.eval().requires_grad_(False)
            with ExitStack() as stack:
                stack.enter_context(_differentiable_recurrence(self.model))
                stack.enter_context(_no_fast_path())
                yield
        finally:
            for module, training in modes.items():
                module.training = training
            for parameter, requires_grad in grads.items():
                parameter.requires_grad_(requires_grad)

    @contextmanager
    def on(self, device: torch.device) -> Iterator[None]:
        """Move the model to a device and back; one that is spread over several stays where it is."""
        home = {parameter.device for parameter in self.model.parameters()}
        if len(home) != 1 or home == {device} or hasattr(self.model, "hf_device_map"):
            yield
            return
        try:
            self.model.to(device)
            yield
        finally:
            self.model.to(home.pop())

    @property
    def fingerprint(self) -> str:
        """A hash of the class and the weights, by which a saved probe knows its model."""
        digest = hashlib.sha256(type(self.model).__name__.encode())
        for name, tensor in sorted(self.model.state_dict().items()):
            if isinstance(tensor, Tensor):
                digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
                digest.update(_checksums(tensor))
        return digest.hexdigest()[:16]


@contextmanager
def _differentiable_recurrence(model: nn.Module) -> Iterator[None]:
    """Let gradients through recurrent layers on a GPU, where cuDNN refuses them in eval mode.

    Without dropout the two modes of such a layer compute the same; with it, PyTorch's own kernels are used.
    """
    layers = [module for module in model.modules() if isinstance(module, nn.RNNBase)]
    before = torch.backends.cudnn.enabled
    for layer in layers:
        layer.training = layer.dropout == 0
    if any(layer.dropout for layer in layers):
        torch.backends.cudnn.enabled = False
    try:
        yield
    finally:
        torch.backends.cudnn.enabled = before


@contextmanager
def _no_fast_path() -> Iterator[None]:
    """Keep nn.TransformerEncoder's states plain: in eval mode its fast path drops padding from them."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _checksums(tensor: Tensor) -> bytes:
    """Return sums over a tensor's bits, plain and by place: exact on any device, and cheap for a large model."""
    if not tensor.numel():
        return b""
    tensor = torch.view_as_real(tensor.detach()) if tensor.is_complex() else tensor.detach()
    bits = tensor.contiguous().flatten().view(INTEGERS[tensor.element_size()]).to(torch.int64)
    places = torch.arange(1, len(bits) + 1, device=bits.device)  # overflow wraps around, the same everywhere
    return f"{int(bits.sum())} {int((bits * places).sum())}".encode()


def adapt(model: nn.Module, sites: Sequence[Site | str] | None = None, example: Batch | None = None) -> Adapter:
    """Find the sites of `model` by structure, or take them by hand.

    >>> encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 2, enable_nested_tensor=False)
    >>> adapt(nn.Sequential(nn.Embedding(10, 8), encoder)).sites.names
    ('0', '1.layers.0:input', '1.layers.0', '1.layers.1')

    A string names a module, with ":input" for what goes into it. With an `example` the model is run once, and
    modules that it calls several times in one pass get one site per call.
    """
    if not isinstance(model, nn.Module):
        raise SiteError(f"adapt takes a PyTorch module, got {type(model).__name__}: load the model first")
    if isinstance(sites, str):
        raise SiteError(f"sites takes a list of names, got the string '{sites}': write sites=['{sites}']")
    found = find_sites(model) if sites is None else [named_site(model, site) for site in sites]
    adapter = Adapter(model, found, blocks_beside(model, found))
    if example is None:
        return adapter
    with torch.no_grad(), adapter.frozen():
        found = in_order_of_calls(found, lambda: adapter(example))
    return Adapter(model, found, blocks_beside(model, found))
