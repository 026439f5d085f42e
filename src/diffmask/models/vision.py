"""Find the sites of a vision transformer by its structure: the projection of patches, and the list of equal blocks.

The projection is the model's first convolution, which cuts an image into patches that do not overlap; its output has no
position yet. What the blocks add before the patches, such as [CLS], a distillation token or registers, is no part of a
state: a state has one row per patch at every site, read row by row, and everything else always stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ModelError, SiteError
from ..pictures import as_pixels
from ..types import Batch
from .sites import Site, States, capture
from .sites import replace as put

PATCHES = ":patches"  # no module's name begins like this
PIXELS, STRETCH = "pixel_values", "interpolate_pos_encoding"


def reads_images(model: nn.Module) -> bool:
    """Say whether a model takes images: it says so itself, or a convolution comes before any embedding of tokens."""
    declared = getattr(model, "main_input_name", None)
    if declared is not None:
        return bool(declared == PIXELS)
    kinds = (m for m in model.modules() if isinstance(m, nn.Conv2d | nn.Embedding))
    return isinstance(next(kinds, None), nn.Conv2d)


def projection_of(model: nn.Module) -> nn.Conv2d | None:
    """Return the convolution that makes patches of an image, if the model has one."""
    conv = first_convolution(model) if reads_images(model) else None
    return conv if conv is not None and _cuts(conv) else None


def find_patch_sites(model: nn.Module, blocks: Sequence[tuple[str, nn.Module]]) -> list[Site]:
    """Find the patches before position, what enters the first block, and what leaves each block."""
    kind, conv = type(model).__name__, first_convolution(model)
    if conv is None:
        raise _refusal(f"{kind} cuts no image into patches by a convolution")
    if not _cuts(conv):
        raise _refusal(
            f"{kind} is no vision transformer: its first convolution sees {_by(conv.kernel_size)} pixels every "
            f"{_by(conv.stride)}, so its parts of the image overlap and none of its states is one patch's"
        )
    if not blocks:
        raise _refusal(f"{kind} has patches but no nn.ModuleList of equal blocks")
    name = next(name for name, module in model.named_modules() if module is conv)
    entry = Site(f"{blocks[0][0]}:input", blocks[0][1], "input")
    return [Site(name, conv, layout="grid"), entry, *(Site(name, block) for name, block in blocks)]


def laid_out(model: nn.Module, sites: Sequence[Site], found: bool, run: Callable[[], Any]) -> list[Site]:
    """Run the model on an image and tell each site where its patches stand.

    Of a model that merges patches on its way, such as Swin, only the sites `found` where they are whole are kept.
    """
    conv = projection_of(model)
    assert conv is not None  # else there are no patches to look for
    whole = [replace(site, layout="line", prefix=0) for site in sites]
    with capture([Site(PATCHES, conv, layout="grid"), *whole]) as states:
        run()
    shapes = [states[site.name].shape for site in whole]
    rows, columns = states.outputs[PATCHES].shape[2:]
    if found and any(len(shape) != 3 for shape in shapes[1:]):
        raise _refusal(
            f"{type(model).__name__} is no vision transformer: its blocks hold maps (a state of shape "
            f"{tuple(next(shape for shape in shapes[1:] if len(shape) != 3))}), not one state per patch"
        )
    if found and len({shape[1] for shape in shapes[1:]}) > 1:
        return [replace(site, layout="grid") for site in sites[:1]]
    placed = [_placed(site, shape, rows, columns) for site, shape in zip(sites, shapes, strict=True)]
    if found:
        _check_prefix(placed[0], placed[1], states, run)
    return placed


def _placed(site: Site, shape: Sequence[int], rows: int, columns: int) -> Site:
    if tuple(shape[2:]) == (rows, columns):
        return replace(site, layout="grid")
    if len(shape) == 3 and shape[1] >= rows * columns:
        return replace(site, prefix=shape[1] - rows * columns)
    raise SiteError(
        f"site '{site.name}' holds a state of shape {tuple(shape)}, which has no row for each of the {rows}×{columns} "
        "patches: leave it out"
    )


def _check_prefix(first: Site, entry: Site, states: States, run: Callable[[], Any]) -> None:
    """Change the first patch and see that, of what enters the blocks, just the first row behind the prefix changes."""
    state = first.state_of(states.outputs[PATCHES]).clone()
    state[:, 0] = 1 - 2 * state[:, 0]
    whole = replace(entry, prefix=0)
    with capture([whole]) as changed, put(first, state):
        run()
    moved = (changed[whole.name] != states[whole.name]).any(-1).any(0).nonzero().flatten().tolist()
    if moved != [entry.prefix]:
        raise SiteError(
            f"site '{entry.name}' has {entry.prefix} positions more than there are patches, and they do not simply "
            f"stand before them (the first patch moves {moved[:5]}): name sites with their prefix, Site(..., prefix=1)"
        )


def any_image(model: nn.Module, processor: Any = None, interpolate: bool = False) -> Batch | None:
    """Make a batch of one image of the size the model is made for, if it says which, or of what a processor makes."""
    conv, size = projection_of(model), _own_size(model)
    assert conv is not None  # whoever calls has seen it
    if size is None and processor is None:
        return None
    pixels = torch.rand(conv.in_channels, *(size or (64, 64)), generator=torch.Generator().manual_seed(0))
    made = pixels.unsqueeze(0) if processor is None else _processed(model, processor, pixels)
    units = prod(length // step for length, step in zip(made.shape[2:], conv.stride, strict=True))
    more = {STRETCH: True} if interpolate else {}
    return Batch({getattr(model, "main_input_name", PIXELS): made, **more}, torch.ones(1, units, dtype=torch.bool))


def _own_size(model: nn.Module) -> tuple[int, int] | None:
    """Return the height and width of the images a model is made for, if it says so."""
    config = getattr(model, "config", None)
    size = getattr(config, "image_size", None) or getattr(getattr(config, "vision_config", None), "image_size", None)
    if size is None:
        return None
    height, width = (size, size) if isinstance(size, int) else size
    return height, width


def _processed(model: nn.Module, processor: Any, pixels: Tensor) -> Tensor:
    """Let the processor make an image into pixels, and refuse one that was not made for images."""
    image = (255 * pixels).to(torch.uint8).permute(1, 2, 0).numpy()
    try:
        return as_pixels(processor(images=[image], return_tensors="pt")[PIXELS])
    except (TypeError, ValueError, KeyError) as error:
        raise ModelError(
            f"{type(model).__name__} reads images of {pixels.shape[0]} channels, and {type(processor).__name__} makes "
            f"none of them ({error}): load the image processor that was saved with the model"
        ) from error


def check_image(model: nn.Module, image: Batch, run: Callable[[Batch], Any]) -> None:
    """Refuse pixels that the model cannot take, in the words of somebody who chose a processor."""
    conv = projection_of(model)
    assert conv is not None  # whoever calls has seen it
    kind, (channels, *size) = type(model).__name__, image.inputs[PIXELS].shape[1:]
    made = f"the processor makes images of {_by(size)} pixels and {channels} channels"
    if channels != conv.in_channels:
        raise ModelError(f"{made}, and {kind} takes {conv.in_channels} channels: load the model's own processor")
    if any(length % step for length, step in zip(size, conv.stride, strict=True)):
        raise ModelError(f"{made}, which {kind} cannot cut into patches of {_by(conv.stride)}: load its own processor")
    try:
        run(image)
    except (ValueError, RuntimeError, TypeError, ModelError) as error:
        why = error.__cause__ or error
        raise ModelError(f"{made}, and {kind} refuses them ({why}): {_other_images(model, image.inputs)}") from error


@contextmanager
def naming_images(model: nn.Module, inputs: Mapping[str, Any]) -> Iterator[None]:
    """Say which images a model was given when it fails on others than its own."""
    try:
        yield
    except (ValueError, RuntimeError) as error:
        conv, pixels, own = projection_of(model), inputs.get(PIXELS), _own_size(model)
        plain = type(error) in (ValueError, RuntimeError)  # not ours, and not the lack of memory
        if not plain or conv is None or own is None or not isinstance(pixels, Tensor) or pixels.dim() != 4:
            raise
        channels, *size = pixels.shape[1:]
        if (channels, *size) == (conv.in_channels, *own):
            raise
        same = channels == conv.in_channels
        raise ModelError(
            f"{type(model).__name__} takes images of {_by(own)} pixels and {conv.in_channels} channels, and cannot "
            f"take {_by(size)} and {channels} ({error}): "
            + (_other_images(model, inputs) if same else f"give images of {conv.in_channels} channels")
        ) from error


def _other_images(model: nn.Module, inputs: Mapping[str, Any]) -> str:
    """Say what to do about images of another size; a model that was told to stretch its positions could not."""
    advice = "load the model's own processor"
    if inputs.get(STRETCH) or not any(hasattr(module, STRETCH) for module in model.modules()):
        return advice
    return (
        f"{advice}, or let it stretch its positions to another size, with [task] interpolate = true in the file of "
        "`diffmask fit --config`, in Python with adapt(model, processor, interpolate=True) and "
        "ImageClassification(..., interpolate=True)"
    )


def first_convolution(model: nn.Module) -> nn.Conv2d | None:
    """Return the convolution that sees the pixels."""
    return next((module for module in model.modules() if isinstance(module, nn.Conv2d)), None)


def _cuts(conv: nn.Conv2d) -> bool:
    """Say whether a convolution sees every pixel once: its steps are as long as its window, beyond a single pixel."""
    return conv.kernel_size == conv.stride and set(conv.dilation) == {1} and max(conv.stride) > 1


def _by(size: Sequence[int]) -> str:
    return "×".join(str(length) for length in size)


def _refusal(why: str) -> SiteError:
    return SiteError(
        f"{why}. Bring a model with patches, such as a ViT, or name the modules whose outputs hold one state per unit: "
        'adapt(model, sites=["encoder", …])'
    )
