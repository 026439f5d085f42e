"""A model as the library sees it: something to run on a batch, and a list of sites in forward order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from itertools import chain
from typing import Any

import torch
from torch import nn

from ..types import Batch
from .fingerprint import fingerprint_of
from .running import begin_answer, differentiable_recurrence, no_cache, no_fast_path, recomputed, takes
from .sites import Site, Sites, wrapped
from .structure import blocks_beside, input_part, position_count
from .vision import PIXELS, naming_images, projection_of

log = logging.getLogger(__name__)


class Adapter:
    """Any PyTorch model with its sites; the model itself is never subclassed or edited.

    `passed` are blocks that are no sites; a run that resumes after them need not compute them either.
    """

    def __init__(self, model: nn.Module, sites: Sequence[Site], passed: Sequence[Site] = ()) -> None:
        self.model, self.sites, self.passed = model, Sites(sites), tuple(passed)
        self._compiled: dict[tuple[str, nn.Module], Callable[..., Any]] = {}
        self.precision: torch.dtype | None = None  # what it computes in, if that is not what it was loaded in
        self.processor: Any = None  # what it was adapted with, and found to go with
        self.masked = takes(model, "attention_mask")  # tasks on texts always say what is padding
        self._told = False  # that it takes no such mask
        self.sees_ahead: bool | None = None  # whether a position sees later ones; known once somebody has asked
        self.in_place: bool | None = None  # whether it changes states after they were seen; known after a first look

    def __call__(self, batch: Batch) -> Any:
        inputs = begin_answer(self.model, batch.inputs)
        if not self.masked:
            self._leave_out(inputs.pop("attention_mask", None))
        if PIXELS in inputs:  # not every model casts them to what it computes in
            inputs[PIXELS] = inputs[PIXELS].to(self.dtype)
        with naming_images(self.model, inputs):
            if self.precision is None:
                return self.model(**inputs)
            with torch.autocast(self.device.type, self.precision):
                return self.model(**inputs)

    def _leave_out(self, mask: torch.Tensor | None) -> None:
        """Tell, once, that a model which takes no mask reads padding as if it were text."""
        if mask is not None and not self._told and not bool(mask.all()):
            self._told = True
            log.warning(
                "%s takes no attention_mask and reads padding like text: explain examples of one length together, or "
                "one by one (batch_size=1)",
                type(self.model).__name__,
            )

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
    def positions(self) -> int | None:
        """How many positions the model takes, if it says so."""
        return position_count(self.model)

    @property
    def causal(self) -> bool:
        """Whether an input position sees only what stands before it, as the attention modules there say, if they do."""
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
                stack.enter_context(differentiable_recurrence(modules))
                stack.enter_context(no_fast_path())
                stack.enter_context(no_cache(modules))
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
        with wrapped(self.blocks if wanted else [], recomputed):
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
    def sharded(self) -> bool:
        """Whether processes hold parts of the weights, as FSDP lays them out, and all take part in every pass."""
        return any(hasattr(parameter, "full_tensor") for parameter in self.model.parameters())

    @property
    def spread(self) -> bool:
        """Whether the model is laid out over several devices, and has to stay where it is."""
        homes = {parameter.device for parameter in self.model.parameters()}
        return len(homes) > 1 or hasattr(self.model, "hf_device_map") or self.sharded

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
        return fingerprint_of(self.model)
