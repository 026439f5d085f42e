"""A model as the library sees it: something to run on a batch, and a list of sites in forward order."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..errors import ModelError, SiteError
from ..types import Batch
from .sites import Site, Sites, wrapped
from .structure import blocks_beside, check_time_last, find_sites, in_order_of_calls, input_part, named_site
from .vision import PIXELS, any_image, check_image, laid_out, projection_of

log = logging.getLogger(__name__)

SAME_VOCABULARY = 0.9  # models round their vocabulary up; a much smaller tokenizer is another one
INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes per value


class Adapter:
    """Any PyTorch model with its sites; the model itself is never subclassed or edited.

    `passed` are blocks that are no sites; a run that resumes after them need not compute them either.
    """

    def __init__(self, model: nn.Module, sites: Sequence[Site], passed: Sequence[Site] = ()) -> None:
        self.model, self.sites, self.passed = model, Sites(sites), tuple(passed)
        self._compiled: dict[tuple[str, nn.Module], Callable[..., Any]] = {}
        self.precision: torch.dtype | None = None  # what it computes in, if that is not what it was loaded in
        self.in_place: bool | None = None  # whether it changes states after they were seen; known after a first look

    def __call__(self, batch: Batch) -> Any:
        inputs = dict(batch.inputs)
        if PIXELS in inputs:  # not every model casts them to what it computes in
            inputs[PIXELS] = inputs[PIXELS].to(self.dtype)
        if self.precision is None:
            return self.model(**inputs)
        with torch.autocast(self.device.type, self.precision):
            return self.model(**inputs)

    @property
    def device(self) -> torch.device:
        """Where the model is, or where its inputs go first."""
        if placed := getattr(self.model, "hf_device_map", None):  # what is offloaded computes on the first GPU
            homes = [torch.device(place) for place in placed.values() if place != "disk"]
            return next((home for home in homes if home.type != "cpu"), torch.device("cpu"))
        tensors = chain(self.model.parameters(), self.model.buffers())
        return next((tensor.device for tensor in tensors), torch.device("cpu"))

    @property
    def dtype(self) -> torch.dtype:
        """What the model computes in."""
        return next((p.dtype for p in self.model.parameters() if p.is_floating_point()), torch.float32)

    @property
    def patch(self) -> tuple[int, int] | None:
        """The height and width of the patches an image is cut into, if the model reads images."""
        conv = projection_of(self.model)
        return None if conv is None else (conv.stride[0], conv.stride[1])

    @property
    def causal(self) -> bool:
        """Whether an input position sees only what stands before it, as the attention modules there say."""
        _, part = input_part(self.model)
        return any(getattr(module, "is_causal", False) for module in part.modules())

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Switch dropout and weight gradients off, and put everything back as it was."""
        modules = list(self.model.modules())
        trained = [module for module in modules if module.training]
        learned = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        modes = {module: module.training for module in modules} if trained else {}
        try:
            if trained:
                self.model.eval()
            for parameter in learned:
                parameter.requires_grad_(False)
            with ExitStack() as stack:
                stack.enter_context(_differentiable_recurrence(modules))
                stack.enter_context(_no_fast_path())
                yield
        finally:
            for module, training in modes.items():
                module.training = training
            for parameter in learned:
                parameter.requires_grad_(True)

    @contextmanager
    def compiled(self, wanted: bool = True, backend: str = "inductor") -> Iterator[None]:
        """Compile what each block computes; hooks stay around the blocks, so that sites are where they were.

        What was compiled is kept for the next time.
        """
        if not wanted:
            yield
            return
        with wrapped(self.blocks, partial(self._compiled_forward, backend)):
            yield

    @contextmanager
    def computing(self, dtype: torch.dtype | None) -> Iterator[None]:
        """Let the model, and nothing around it, compute in another precision."""
        before, self.precision = self.precision, dtype
        try:
            yield
        finally:
            self.precision = before

    @contextmanager
    def recomputing(self, wanted: bool = True) -> Iterator[None]:
        """Keep what goes into each block for the backward pass, and compute what is inside of it again then."""
        with wrapped(self.blocks if wanted else [], _recomputed):
            yield

    @property
    def blocks(self) -> list[nn.Module]:
        """The equal blocks of the model, each once; recurrent layers are none."""
        found = dict.fromkeys(site.module for site in blocks_beside(self.model, []))
        return [module for module in found if not isinstance(module, nn.RNNBase)]

    def _compiled_forward(self, backend: str, module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
        key = backend, module
        if key not in self._compiled:
            self._compiled[key] = wraps(forward)(torch.compile(forward, backend=backend))
        return self._compiled[key]

    @property
    def spread(self) -> bool:
        """Whether the model is laid out over several devices, and has to stay where it is."""
        homes = {parameter.device for parameter in self.model.parameters()}
        return len(homes) > 1 or hasattr(self.model, "hf_device_map")

    @contextmanager
    def on(self, device: torch.device) -> Iterator[None]:
        """Move the model to a device and back; one that is spread over several stays where it is."""
        home = {parameter.device for parameter in self.model.parameters()}
        if not home or home == {device} or self.spread:
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


def _recomputed(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    """Return a forward that keeps nothing for the backward pass; a frozen model draws nothing at random."""

    @wraps(forward)
    def run(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        return checkpoint(forward, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)

    return run


@contextmanager
def _differentiable_recurrence(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Let gradients through recurrent layers on a GPU, where cuDNN refuses them in eval mode.

    Without dropout the two modes of such a layer compute the same; with it, PyTorch's own kernels are used.
    """
    layers = [module for module in modules if isinstance(module, nn.RNNBase)]
    before, modes = torch.backends.cudnn.enabled, [layer.training for layer in layers]
    for layer in layers:
        layer.training = layer.dropout == 0
    if any(layer.dropout for layer in layers):
        torch.backends.cudnn.enabled = False
    try:
        yield
    finally:
        for layer, training in zip(layers, modes, strict=True):
            layer.training = training
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


def adapt(
    model: nn.Module, processor: Any = None, *, sites: Sequence[Site | str] | None = None, example: Batch | None = None
) -> Adapter:
    """Find the sites of `model` by structure, or take them by hand.

    >>> encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 2, enable_nested_tensor=False)
    >>> adapt(nn.Sequential(nn.Embedding(10, 8), encoder)).sites.names
    ('0', '1.layers.0:input', '1.layers.0', '1.layers.1')

    A string names a module, with ":input" for what goes into it. A `processor`, a tokenizer or what prepares images, is
    checked to fit the model. With it, or with an `example`, the model is run once, and modules that it calls several
    times in one pass get a site per call. A vision model is run on an image anyway, to see where its patches stand.
    """
    if not isinstance(model, nn.Module):
        raise SiteError(f"adapt takes a PyTorch module, got {type(model).__name__}: load the model first")
    if isinstance(processor, list | tuple | str):
        raise SiteError(f"adapt takes a tokenizer after the model, got {processor!r}: name sites with sites=[…]")
    if isinstance(sites, str):
        raise SiteError(f"sites takes a list of names, got the string '{sites}': write sites=['{sites}']")
    found = find_sites(model) if sites is None else [named_site(model, site) for site in sites]
    check_time_last(found)
    adapter = Adapter(model, found, blocks_beside(model, found))
    if projection_of(model) is not None:
        return _adapt_to_images(adapter, processor, example, found_by_structure=sites is None)
    if processor is not None:
        check_vocabulary(model, processor)
    if example is None and processor is not None:
        example = any_text(model, processor).to(adapter.device)
    if example is None:
        return adapter
    with torch.no_grad(), adapter.frozen():
        found = in_order_of_calls(found, lambda: adapter(example))
    return Adapter(model, found, blocks_beside(model, found))


def _adapt_to_images(adapter: Adapter, processor: Any, example: Batch | None, found_by_structure: bool) -> Adapter:
    """Tell the sites of a vision model where their patches stand, and check that a processor fits."""
    model, conv = adapter.model, projection_of(adapter.model)
    assert conv is not None  # whoever calls has seen it
    image = any_image(model, conv, processor)
    example = example or image
    if example is None and found_by_structure:
        raise SiteError(
            f"{type(model).__name__} does not say how large its images are: give one, adapt(model, example=batch)"
        )
    if example is None:
        return adapter
    example = example.to(adapter.device)
    with torch.no_grad(), adapter.frozen():
        if processor is not None and image is not None:
            check_image(model, conv, image.inputs[PIXELS], lambda: adapter(image.to(adapter.device)))
        sites = in_order_of_calls(adapter.sites, lambda: adapter(example))
        sites = laid_out(model, sites, found_by_structure, lambda: adapter(example))
    return Adapter(model, sites, blocks_beside(model, sites))


def check_vocabulary(model: nn.Module, tokenizer: Any) -> None:
    """Refuse a tokenizer that was not made for this model, as far as their sizes tell."""
    try:
        rows = model.get_input_embeddings().num_embeddings  # type: ignore[operator]
    except (AttributeError, NotImplementedError):
        return  # a model that declares no vocabulary cannot be compared
    name, count = type(tokenizer).__name__, len(tokenizer)
    if count > rows:
        raise ModelError(
            f"the tokenizer ({name}, {count} tokens) does not match {type(model).__name__}, whose vocabulary has "
            f"{rows} tokens: load the tokenizer that was saved with the model"
        )
    own = getattr(getattr(model, "config", None), "pad_token_id", None)
    if count < SAME_VOCABULARY * rows or (own is not None and own != tokenizer.pad_token_id):
        log.warning(
            "the tokenizer (%s, %d tokens, padding %s) may not match %s (%d tokens, padding %s): load its own",
            *(name, count, tokenizer.pad_token_id, type(model).__name__, rows, own),
        )


def any_text(model: nn.Module, tokenizer: Any) -> Batch:
    """Make a batch of one short text, to see in which order the model calls its modules."""
    inputs = dict(tokenizer("a text", return_tensors="pt"))
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = inputs["input_ids"][:, :1]
    return Batch(inputs, torch.ones_like(inputs["input_ids"], dtype=torch.bool))
