"""From any PyTorch model to an adapter: its sites found by structure, its processor checked."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from ..errors import ModelError, SiteError
from ..types import Batch
from .adapter import Adapter
from .axes import Layout, Place, declared, layouts, place
from .echo import echoed
from .sites import Site, capture
from .structure import blocks_beside, find_sites, in_order_of_calls, named_site
from .vision import any_image, check_image, laid_out, projection_of

log = logging.getLogger(__name__)

CLASSIFIER = "ForSequenceClassification"  # how transformers calls its classes that classify a text
SAME_VOCABULARY = 0.9  # models round their vocabulary up; a much smaller tokenizer is another one


def adapt(
    model: nn.Module,
    processor: Any = None,
    *,
    sites: Sequence[Site | str] | None = None,
    example: Batch | None = None,
    interpolate: bool = False,
) -> Adapter:
    """Find the sites of `model` by structure, or take them by hand.

    >>> encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 2, enable_nested_tensor=False)
    >>> adapt(nn.Sequential(nn.Embedding(10, 8), encoder)).sites.names
    ('0', '1.layers.0:input', '1.layers.0', '1.layers.1')

    A string names a module, with ":input" for what goes into it. A `processor`, a tokenizer or what prepares images, is
    checked to fit the model. With it, or with an `example`, the model is run once: modules that it calls several times
    in one pass get a site per call, and where time stands before the examples, states are turned. A vision model is run
    on an image anyway, to see where its patches stand; `interpolate` lets it stretch its positions to the images of the
    processor, as `ImageClassification` takes it too.
    """
    if not isinstance(model, nn.Module):
        raise SiteError(f"adapt takes a PyTorch module, got {type(model).__name__}: load the model first")
    if isinstance(processor, list | tuple | str):
        raise SiteError(f"adapt takes a tokenizer after the model, got {processor!r}: name sites with sites=[…]")
    if isinstance(sites, str):
        raise SiteError(f"sites takes a list of names, got the string '{sites}': write sites=['{sites}']")
    found = find_sites(model) if sites is None else [named_site(model, site) for site in sites]
    adapter = _with_axes(Adapter(model, found, blocks_beside(model, found)), {})
    if projection_of(model) is not None:
        made = any_image(model, processor, interpolate) if processor is not None else None
        return _adapt_to_images(adapter, made, example, found_by_structure=sites is None)
    adapter.processor = processor
    if processor is not None:
        check_kind(processor)
        check_tokenizer(model, processor)
        doubt_tokenizer(model, processor)
    if example is None and processor is not None:
        example = any_text(model, processor).to(adapter.device)
    if example is None:
        return adapter
    lines = [replace(site, layout="line") for site in (*adapter.sites, *adapter.passed)]
    with torch.no_grad(), adapter.frozen(), capture(lines, "watch") as states:
        found = in_order_of_calls(adapter.sites, lambda: adapter(example), found=sites is None)
    adapter = _with_axes(Adapter(model, found, blocks_beside(model, found)), layouts(states, example.shape))
    adapter.processor = processor
    return adapter


def _with_axes(adapter: Adapter, seen: Mapping[Place, Layout]) -> Adapter:
    """Tell the sites, and the blocks between them, which axis is time: as was seen, or else as layers declare."""
    both = [declared(site) for site in (*adapter.sites, *adapter.passed)]
    both = [s if s.layout == "grid" else replace(s, layout=seen.get(place(s), s.layout)) for s in both]
    sites, passed = both[: len(adapter.sites)], both[len(adapter.sites) :]
    return Adapter(adapter.model, [echoed(adapter.model, site) for site in sites], passed)


def _adapt_to_images(adapter: Adapter, made: Batch | None, example: Batch | None, found_by_structure: bool) -> Adapter:
    """Tell the sites of a vision model where their patches stand, and check that the image a processor made fits.

    The model is looked at with an image of its own size first: one that cannot be explained is refused for that, not
    for its processor.
    """
    model = adapter.model
    example = example or any_image(model)
    if example is None and made is None and found_by_structure:
        raise SiteError(
            f"{type(model).__name__} does not say how large its images are: give one, adapt(model, example=batch)"
        )
    if not (given := [batch.to(adapter.device) for batch in (example, made) if batch is not None]):
        return adapter
    first, *others = given
    with torch.no_grad(), adapter.frozen():
        if example is None:
            check_image(model, first, adapter)
        sites = in_order_of_calls(adapter.sites, lambda: adapter(first))
        sites = laid_out(model, sites, found_by_structure, lambda: adapter(first))
        for image in others:
            check_image(model, image, adapter)
    return Adapter(model, sites, blocks_beside(model, sites))


def check_kind(tokenizer: Any) -> None:
    """Refuse what makes no tokens of a text."""
    if not callable(tokenizer) or not hasattr(tokenizer, "__len__"):
        raise ModelError(
            f"adapt takes a tokenizer after the model, got {type(tokenizer).__name__}: load the one that was saved "
            "with the model, AutoTokenizer.from_pretrained(…)"
        )


def check_tokenizer(model: nn.Module, tokenizer: Any) -> None:
    """Refuse a tokenizer and a model that do not go together."""
    check_vocabulary(model, tokenizer)
    check_padding(model, tokenizer)


def check_vocabulary(model: nn.Module, tokenizer: Any) -> None:
    """Refuse a tokenizer with tokens that the model does not know."""
    rows = row_count(model)
    if rows is not None and (count := len(tokenizer)) > rows:
        raise ModelError(
            f"the tokenizer ({type(tokenizer).__name__}, {count} tokens) does not match {type(model).__name__}, whose "
            f"vocabulary has {rows} tokens: load the tokenizer that was saved with the model"
        )


def doubt_tokenizer(model: nn.Module, tokenizer: Any) -> None:
    """Warn of a tokenizer that may be another model's, as far as sizes and padding tell."""
    rows = row_count(model)
    if rows is None:
        return  # a model that declares no vocabulary cannot be compared
    count = len(tokenizer)
    own = getattr(getattr(model, "config", None), "pad_token_id", None)
    if count < SAME_VOCABULARY * rows or (own is not None and own != tokenizer.pad_token_id):
        log.warning(
            "the tokenizer (%s, %d tokens, padding %s) may not match %s (%d tokens, padding %s): load its own",
            *(type(tokenizer).__name__, count, tokenizer.pad_token_id, type(model).__name__, rows, own),
        )


def row_count(model: nn.Module) -> int | None:
    """Return how many tokens a model has an embedding for, if it declares that."""
    try:
        return int(model.get_input_embeddings().num_embeddings)  # type: ignore[operator]
    except (AttributeError, NotImplementedError):
        return None


def check_padding(model: nn.Module, tokenizer: Any) -> None:
    """Refuse a classifier that would look for padding without knowing which token it is."""
    if getattr(tokenizer, "pad_token_id", None) is not None and lacks_padding(model):
        raise ModelError(
            f"{type(model).__name__} answers at the last token that is no padding, and its configuration names "
            "none: set model.config.pad_token_id = tokenizer.pad_token_id"
        )


def lacks_padding(model: nn.Module) -> bool:
    """Say whether a model looks for padding, as classifiers on causal models do, and does not know what it is."""
    config = getattr(model, "config", None)
    if config is None or getattr(config, "pad_token_id", None) is not None or CLASSIFIER not in type(model).__name__:
        return False
    # Sixty classes do, and nothing in their configuration or their modules sets them apart.
    forward = inspect.unwrap(type(model).forward)
    return "pad_token_id" in getattr(getattr(forward, "__code__", None), "co_names", ())


def tell_padding(model: nn.Module, tokenizer: Any) -> None:
    """Tell a model what padding is, if it looks for it; only for one that was loaded here and is nobody's yet."""
    if lacks_padding(model):
        model.config.pad_token_id = tokenizer.pad_token_id  # type: ignore[union-attr]


def any_text(model: nn.Module, tokenizer: Any) -> Batch:
    """Make a batch of one short text, to see in which order the model calls its modules."""
    inputs = dict(tokenizer("a text", return_tensors="pt"))
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = inputs["input_ids"]  # as long: a classifier looks for the end of the text there
    return Batch(inputs, torch.ones_like(inputs["input_ids"], dtype=torch.bool))
