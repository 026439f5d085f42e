"""How a frozen model has to be run so that its states can be seen, and gradients pass through it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from ..errors import ModelError

WRITTEN = {"decoder_input_ids", "decoder_inputs_embeds", "labels"}  # what says how far the answer is written


def recomputed(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    """Return a forward that keeps nothing for the backward pass; a frozen model draws nothing at random.

    What is computed twice must not fill a cache, which a few models make though they are told to keep none.
    """

    @wraps(forward)
    def run(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        kwargs = {name: None if hasattr(value, "get_seq_length") else value for name, value in kwargs.items()}
        return checkpoint(forward, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)

    return run


def begin_answer(model: nn.Module, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Let a model that writes its answer apart from what it reads begin it as `generate` does, if nothing is written.

    T5 begins with padding; BART with its end, and the token that all its answers have first.
    """
    if "input_ids" not in inputs or WRITTEN & inputs.keys() or not writes_apart(model):
        return dict(inputs)
    named = (_said(model, "decoder_start_token_id"), _said(model, "forced_bos_token_id"))
    if named[0] is None:
        raise ModelError(
            f"{type(model).__name__} writes its answer apart from what it reads, and does not say with which token it "
            "begins: set model.config.decoder_start_token_id"
        )
    ids = inputs["input_ids"]
    begun = [ids.new_full((len(ids), 1), token) for token in named if token is not None]
    return {**inputs, "decoder_input_ids": torch.cat(begun, 1)}


def takes(model: nn.Module, name: str) -> bool:
    """Say whether a model can be given an input of a name."""
    known = signature(model.forward).parameters.values()
    return any(each.name == name or each.kind is each.VAR_KEYWORD for each in known)


def writes_apart(model: nn.Module) -> bool:
    """Say whether a model reads with an encoder and writes with a decoder; one that only classifies writes nothing."""
    if not getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        return False
    output = getattr(model, "get_output_embeddings", None)  # a module of someone's own may only borrow a configuration
    return output is not None and output() is not None


def decoder_of(model: nn.Module) -> nn.Module | None:
    """Return the decoder of a model that has an encoder too; None of any other.

    What only borrows the configuration of one answers with itself, or with something around its encoder.
    """
    both = hasattr(model, "get_encoder") and hasattr(model, "get_decoder")
    if not both or not getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        return None
    encoder, decoder = model.get_encoder(), model.get_decoder()  # type: ignore[operator]
    found = isinstance(decoder, nn.Module) and all(part is not encoder for part in decoder.modules())
    return decoder if found else None


def reads_twice(model: nn.Module) -> bool:
    """Say whether a model reads a text in its encoder and again in its decoder, to say what kind of text it is."""
    return decoder_of(model) is not None and not writes_apart(model)


def _said(model: nn.Module, name: str) -> int | None:
    """Return what a model says of how it writes, in either of the places where transformers keeps it."""
    places = (getattr(model, place, None) for place in ("generation_config", "config"))
    return next((value for place in places if (value := getattr(place, name, None)) is not None), None)


@contextmanager
def differentiable_recurrence(modules: Iterable[nn.Module]) -> Iterator[None]:
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
def no_fast_path() -> Iterator[None]:
    """Keep nn.TransformerEncoder's states plain: in eval mode its fast path drops padding from them."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextmanager
def no_cache(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Let a model that writes keep no keys and values: it runs on whole texts, and a run must not see the last one's.

    The configuration says so, since not every model hands the argument of that name on.
    """
    found = (getattr(module, "config", None) for module in modules)
    known = (config for config in found if hasattr(config, "model_type") and hasattr(config, "use_cache"))
    configs: dict[int, Any] = {id(config): config for config in known}  # parts of a model may share one
    before = {key: config.use_cache for key, config in configs.items()}
    try:
        for key in before:
            configs[key].use_cache = False
        yield
    finally:
        for key, kept in before.items():
            configs[key].use_cache = kept
